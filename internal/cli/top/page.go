package top

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page is the metrics of one node at one time.
type page struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

// parse reads pages of metrics of one node, which have no metric in common, and that were had at a time.
func parse(at time.Time, texts ...[]byte) (*page, error) {
	p := &page{at, map[string]*dto.MetricFamily{}}
	for _, text := range texts {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		for name, f := range families {
			if was := p.families[name]; was != nil {
				was.Metric = append(was.Metric, f.Metric...)
				continue
			}
			p.families[name] = f
		}
	}
	return p, nil
}

// labelled reports whether a series has each label, given as names and values in turn.
func labelled(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] }) {
			return false
		}
	}
	return true
}

// value is the sum of the series with these labels. ok is false if there is none.
func (p *page) value(name string, labels ...string) (sum float64, ok bool) {
	for _, m := range p.families[name].GetMetric() {
		if labelled(m, labels) {
			sum, ok = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetUntyped().GetValue(), true
		}
	}
	return sum, ok
}

// grown returns by how much a counter has grown since the page before. Counters begin at 0 when their node starts.
func (p *page) grown(before *page, name string, labels ...string) (float64, bool) {
	now, ok := p.value(name, labels...)
	was, known := before.value(name, labels...)
	switch {
	case p.restarted(before):
		return now, ok
	case now < was: // the counter of a replica that was made anew
		return now, ok
	}
	return now - was, ok && known
}

// restarted reports whether the process of the node is another one than before.
func (p *page) restarted(before *page) bool {
	now, _ := p.value("process_start_time_seconds")
	was, _ := before.value("process_start_time_seconds")
	return now != was
}

// rate is grown per second.
func (p *page) rate(before *page, name string, labels ...string) (float64, bool) {
	grown, ok := p.grown(before, name, labels...)
	seconds := p.at.Sub(before.at).Seconds()
	return grown / seconds, ok && seconds > 0
}

// times are the observations of a histogram within an interval.
type times struct {
	count, sum float64
	buckets    []bucket // by bound
}

type bucket struct{ bound, count float64 }

// observed returns the observations since the page before of the series with these labels, of which there is one.
func (p *page) observed(before *page, name string, labels ...string) times {
	now, was := p.histogram(name, labels), before.histogram(name, labels)
	if p.restarted(before) {
		return now
	}
	now.count, now.sum = now.count-was.count, now.sum-was.sum
	for i := range min(len(now.buckets), len(was.buckets)) {
		now.buckets[i].count -= was.buckets[i].count
	}
	return now
}

func (p *page) histogram(name string, labels []string) (t times) {
	for _, m := range p.families[name].GetMetric() {
		if labelled(m, labels) {
			h := m.GetHistogram()
			t.count, t.sum = float64(h.GetSampleCount()), h.GetSampleSum()
			for _, b := range h.GetBucket() {
				t.buckets = append(t.buckets, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
			return t
		}
	}
	return t
}

// mean in seconds. ok is false without an observation.
func (t times) mean() (float64, bool) { return t.sum / t.count, t.count > 0 }

// quantile in seconds, as Prometheus' histogram_quantile: linear within a bucket.
func (t times) quantile(q float64) (float64, bool) {
	rank, low, below := q*t.count, 0.0, 0.0
	for _, b := range t.buckets {
		if b.count >= rank && t.count > 0 {
			if math.IsInf(b.bound, 1) {
				break
			}
			return low + (b.bound-low)*(rank-below)/(b.count-below), true
		}
		if !math.IsInf(b.bound, 1) {
			low, below = b.bound, b.count
		}
	}
	return low, t.count > 0 // beyond the last bound
}
