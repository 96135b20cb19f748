package terminal

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress is a bar on a terminal, or nothing at all anywhere else: pipes and
// files get only what was asked for. A nil progress is nothing, too.
type Progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

// unit is what a bar counts.
type unit uint8

const (
	UnitNone  unit = iota // only the share is shown
	UnitBytes             // sizes and a rate
	UnitCount
)

// NewProgress shows a bar up to total on the error stream, if that is a terminal
// and visible is true; where the total is not known, and below 0, how much there
// has been and how fast. Close it before anything else is printed.
func (c *Terminal) NewProgress(visible bool, label string, total int64, u unit) *Progress {
	if !visible || !IsTerminal(c.Err) {
		return &Progress{}
	}
	if total < 0 {
		container := mpb.New(mpb.WithOutput(c.Err), mpb.WithWidth(40))
		bar := container.New(0, mpb.NopStyle(),
			mpb.PrependDecorators(decor.Name(label, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(
				decor.CurrentKibiByte("% .1f", decor.WCSyncSpace),
				decor.AverageSpeed(decor.SizeB1024(0), "% .1f", decor.WCSyncSpace)),
			mpb.BarRemoveOnComplete())
		return &Progress{container, bar}
	}
	right := []decor.Decorator{decor.Percentage(decor.WCSyncSpace)}
	switch u {
	case UnitBytes:
		right = append(right,
			decor.Counters(decor.SizeB1024(0), "% .1f / % .1f", decor.WCSyncSpace),
			decor.AverageSpeed(decor.SizeB1024(0), "% .1f", decor.WCSyncSpace))
	case UnitCount:
		right = append(right, decor.CountersNoUnit("%d / %d", decor.WCSyncSpace))
	}
	container := mpb.New(mpb.WithOutput(c.Err), mpb.WithWidth(40))
	bar := container.AddBar(total,
		mpb.PrependDecorators(decor.Name(label, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(right...),
		mpb.BarRemoveOnComplete())
	return &Progress{container, bar}
}

// Add moves the bar on. It is safe for several goroutines.
func (p *Progress) Add(n int64) {
	if p != nil && p.bar != nil {
		p.bar.IncrInt64(n)
	}
}

// Close takes the bar away, full or not.
func (p *Progress) Close() {
	if p != nil && p.bar != nil {
		p.bar.Abort(true)
		p.container.Wait()
	}
}

// FollowClock moves the bar on by the milliseconds that pass, until stop.
func (p *Progress) FollowClock() (stop func()) {
	if p.bar == nil {
		return func() {}
	}
	const step = 100 * time.Millisecond
	ticks := time.NewTicker(step)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				p.Add(step.Milliseconds())
			case <-over:
				return
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(over)
		<-ended
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && cwriter.IsTerminal(int(file.Fd()))
}

// RegularSize is the size of a plain file, or -1 for anything else.
func RegularSize(stream any) int64 {
	file, ok := stream.(*os.File)
	if !ok {
		return -1
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// Reading moves the bar on by what is read from r.
func (p *Progress) Reading(r io.Reader) io.Reader { return counting{r, p} }

type counting struct {
	io.Reader
	progress *Progress
}

func (r counting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.progress.Add(int64(n))
	return n, err
}

// IsDirectory reports whether there is a directory at path.
func IsDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
