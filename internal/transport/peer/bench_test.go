package peer

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

func BenchmarkSend(b *testing.B) {
	for _, bytes := range []int{2 << 10, 1 << 20} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			var got atomic.Int64
			window := make(chan struct{}, max(1, 32<<20/bytes)) // 32 MiB on their way at most
			from, _ := pair(b, func(o *Options) {
				o.Deliver = func(NodeID, uint64, uint64, []byte) {
					got.Add(1)
					<-window
				}
			})
			message := net.Buffers{make([]byte, bytes)}
			b.SetBytes(int64(bytes))
			for b.Loop() {
				window <- struct{}{}
				if !from.Send(2, 1, 1, false, message) {
					b.Fatal("dropped")
				}
			}
			for range cap(window) {
				window <- struct{}{}
			}
			b.ReportMetric(float64(got.Load())/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
