package vfs

// MakeDirs is MkdirAll of OS on other directories.
var MakeDirs = makeDirs
