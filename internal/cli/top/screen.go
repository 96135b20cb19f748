package top

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is a terminal that is drawn anew at each turn.
type screen struct {
	in, out *os.File
	was     *term.State
	keys    chan byte
}

const (
	// The other screen of the terminal without a cursor, and back.
	openScreen  = "\x1b[?1049h\x1b[?25l"
	closeScreen = "\x1b[?25h\x1b[?1049l"
)

// newScreen takes a terminal, of which each key is then read at once. close gives it back.
func newScreen(in, out *os.File) (*screen, error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{in: in, out: out, was: was, keys: make(chan byte)}
	fmt.Fprint(out, openScreen)
	go func() { // ends with the process: nothing interrupts a read from a terminal
		for key := make([]byte, 1); ; {
			if _, err := in.Read(key); err != nil {
				close(s.keys)
				return
			}
			s.keys <- key[0]
		}
	}()
	return s, nil
}

func (s *screen) close() {
	fmt.Fprint(s.out, closeScreen)
	_ = term.Restore(int(s.in.Fd()), s.was)
}

// size is the number of columns and lines.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 2 {
		return 80, 24
	}
	return width, height
}

// draw shows a text and a last line below it.
func (s *screen) draw(text, last string) {
	width, height := s.size()
	drawn := frame(text, last, width, height)
	_, _ = io.WriteString(s.out, drawn)
}

// frame is what draws a text on a screen of a size: what does not fit is left out.
func frame(text, last string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines[:min(len(lines), height-1)] {
		b.WriteString(cut(line, width) + "\x1b[K\r\n")
	}
	fmt.Fprintf(&b, "\x1b[J\x1b[%dH\x1b[7m%s\x1b[0m", height, cut(last, width))
	return b.String()
}

// cut returns as much of a line as fits, a column for each letter, without what moves the cursor.
func cut(line string, width int) string {
	letters := []rune(line)
	letters = letters[:min(len(letters), width)]
	for i, r := range letters {
		if r < ' ' || r == 0x7f {
			letters[i] = '?'
		}
	}
	return string(letters)
}
