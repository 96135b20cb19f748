package terminal

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

// Size is a number of bytes, written as people do: 4096, 64KiB, 1.5GiB, 10GB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

func (s *Size) Set(text string) error {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, factor := text[len(number):], 1.0
	if unit != "" {
		factor = 0
		for _, known := range sizeUnits {
			if strings.EqualFold(unit, known.name) {
				factor = known.bytes
			}
		}
		if factor == 0 && strings.ContainsAny(unit, "kKmMgGtT") && len(unit) == 1 {
			u := strings.ToUpper(unit)
			return fmt.Errorf("use %siB for powers of 1024 or %sB for powers of 1000", u, u)
		}
		if factor == 0 {
			return fmt.Errorf("unknown unit %q: use B, KiB, MiB, GiB or TiB, or KB, MB, GB or TB", unit)
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(n) {
		return errors.New("a size must be a number and a unit, such as 64KiB or 10GiB")
	}
	if n < 0 || n*factor >= math.MaxInt64 {
		return errors.New("a size must be between 0 and 8388608TiB")
	}
	if n*factor != math.Trunc(n*factor) {
		return errors.New("a size must be a whole number of bytes")
	}
	*s = Size(n * factor)
	return nil
}

func (s Size) String() string {
	if s == 0 {
		return "0" // which pflag does not show as a default
	}
	for _, unit := range sizeUnits[:4] {
		if n := float64(s) / unit.bytes; n >= 1 {
			return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

func (*Size) Type() string { return "size" }

// Duration is a time span: 500ms, 1m, 1h30m, and days: 7d.
type Duration time.Duration

func (d *Duration) Set(text string) error {
	var days time.Duration
	rest := text
	if before, after, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return errNotADuration
		}
		days, rest = time.Duration(n)*24*time.Hour, after
	}
	var parsed time.Duration
	if rest != "" || days == 0 {
		var err error
		if parsed, err = time.ParseDuration(rest); err != nil {
			return errNotADuration
		}
	}
	if parsed < 0 {
		return errors.New("a duration must not be negative")
	}
	if parsed > math.MaxInt64-days {
		return errors.New("a duration must be at most 292 years")
	}
	*d = Duration(days + parsed)
	return nil
}

var errNotADuration = errors.New("a duration must be numbers with units, such as 500ms, 1m, 1h30m or 7d")

func (d Duration) String() string {
	if d == 0 {
		return "0"
	}
	whole := time.Duration(d)
	days := whole / (24 * time.Hour)
	text := (whole % (24 * time.Hour)).String()
	// time writes 1m0s and 1h0m0s, which is unusual.
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days == 0:
		return text
	case text == "0s":
		return fmt.Sprintf("%dd", days)
	default:
		return fmt.Sprintf("%dd%s", days, text)
	}
}

func (*Duration) Type() string { return "duration" }

// Moment is a point in time: RFC 3339, or a duration that lies back from now.
type Moment struct {
	time.Time
	text string
}

func (m *Moment) Set(text string) error {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*m = Moment{at, text}
		return nil
	}
	var ago Duration
	if err := ago.Set(text); err != nil {
		return errors.New("a time must be like 2030-01-31T08:00:00Z, or how long ago: 5m, 2d")
	}
	*m = Moment{time.Now().Add(-time.Duration(ago)), text}
	return nil
}

func (m Moment) String() string { return m.text }

func (*Moment) Type() string { return "time" }

// Durability is the flag of a durability class.
type Durability client.Durability

func (d *Durability) Set(text string) error {
	for _, known := range []client.Durability{client.Disk, client.Memory} {
		if text == known.String() {
			*d = Durability(known)
			return nil
		}
	}
	return fmt.Errorf("must be disk or memory, not %q", text)
}

func (d Durability) String() string { return client.Durability(d).String() }

func (*Durability) Type() string { return "class" }

// Format is the flag of how records are written and read.
type Format string

const (
	FormatText Format = "text"
	FormatJSON Format = "json"
	FormatRaw  Format = "raw"
)

func (f *Format) Set(text string) error {
	switch known := Format(text); known {
	case FormatText, FormatJSON, FormatRaw:
		*f = known
		return nil
	}
	return fmt.Errorf("must be text, json or raw, not %q", text)
}

func (f Format) String() string { return string(f) }

func (*Format) Type() string { return "format" }

// CompleteWords offers the words that a flag knows to the shell.
func CompleteWords(command *cobra.Command, flag string, words ...string) {
	// The only error is a flag that does not exist, which the tests of the
	// command tree would show.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
