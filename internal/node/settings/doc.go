// Package settings is what a node is started with, and what its logs are configured with.
package settings
