package records

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// consistency is the flag of how fresh a read has to be.
type consistency struct {
	text   string
	option client.ReaderOption // nil: the default
}

func (c *consistency) Set(text string) error {
	word, bound, bounded := strings.Cut(text, "=")
	switch {
	case text == "any":
		c.option = client.WithAnyReplica()
	case text == "linearizable":
		c.option = client.WithLinearizable()
	case word == "at-least" && bounded:
		offset, err := strconv.ParseInt(bound, 10, 64)
		if err != nil || offset < 0 {
			return errors.New("at-least= takes an offset, 0 or more")
		}
		c.option = client.WithAtLeast(offset)
	case word == "max-age" && bounded:
		var age terminal.Duration
		if err := age.Set(bound); err != nil {
			return err
		}
		if age == 0 {
			return errors.New("max-age=0 is not possible: use linearizable")
		}
		c.option = client.WithMaxStaleness(time.Duration(age))
	default:
		return errors.New("any, linearizable, at-least=OFFSET or max-age=DURATION")
	}
	c.text = text
	return nil
}

func (c *consistency) String() string { return c.text }

func (*consistency) Type() string { return "level" }
