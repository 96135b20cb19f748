package serve

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cli/terminal"
)

// unknownMemory is assumed of a machine that does not say how much memory it has.
const unknownMemory = 4 << 30

// defaultMemory is a quarter of what this process may use: of the machine's memory,
// or of its control group's if that is less.
func defaultMemory() int64 {
	all, err := memlimit.FromSystem()
	if err != nil || all == 0 {
		all = unknownMemory
	}
	if group, err := memlimit.FromCgroup(); err == nil && group > 0 {
		all = min(all, group)
	}
	return max(int64(min(all, math.MaxInt64))/4, budget.Least)
}

// memoryFlag adds --memory.
func memoryFlag(flags *pflag.FlagSet, bytes *int64, help string) {
	*bytes = defaultMemory()
	flags.Var((*terminal.Size)(bytes), "memory", help)
	flags.Lookup("memory").DefValue = "a quarter of the machine's"
}

// checkMemory refuses less than nodes in this process can work in. The default is
// never refused.
func checkMemory(command *cobra.Command, bytes int64, nodes int) error {
	if least := budget.Least * int64(nodes); command.Flags().Changed("memory") && bytes < least {
		return terminal.Misused(command, "--memory must be at least %v, not %v", terminal.Size(least), terminal.Size(bytes))
	}
	return nil
}

// useMemory lets Go's runtime collect and give back memory so that the process stays
// below so many bytes, until ctx ends. An operator's own GOMEMLIMIT comes first.
func useMemory(ctx context.Context, bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		budget.Limit(bytes)
	}
	go budget.Release(ctx, bytes, budget.LookEvery)
}

// tuneRuntime sets what suits a server whose goroutines wait in fdatasync. An
// operator's own GOMAXPROCS and GOGC come first.
//
// A goroutine in a system call keeps its processor until the runtime notices,
// so one more than there are cores keeps all of them busy. And most of what a
// node allocates is short-lived beside little that stays, so collecting less
// often costs some tens of MiB and gives a fifth more appends on 128
// connections.
func tuneRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}
