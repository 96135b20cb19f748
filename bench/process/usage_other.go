//go:build !linux

package process

import "time"

func ownTime() time.Duration            { return Unknown }
func timeOf(int) (time.Duration, bool)  { return 0, false }
func residentOf(int) (int64, bool)      { return 0, false }
func listener(string) (id int, ok bool) { return 0, false }
