package record

import (
	"math/rand/v2"
	"testing"
)

// benchRecords are 128 records of 2 KiB, the shape of the append benchmark.
// The values are half noise, so that codecs have something to do.
func benchRecords() []Record {
	source := rand.NewChaCha8([32]byte{1})
	records := make([]Record, 128)
	for i := range records {
		value := make([]byte, 2048)
		source.Read(value[:1024])
		records[i] = Record{Timestamp: int64(i), Value: value}
	}
	return records
}

func BenchmarkCheck(b *testing.B) {
	for c := None; c < codecEnd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := build(b, c, benchRecords()...)
			b.SetBytes(128 * 2048)
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	batch := build(b, None, benchRecords()...)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuilder(b *testing.B) {
	for c := None; c < codecEnd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			records := benchRecords()
			memory := make([]byte, 0, 512<<10)
			var builder Builder
			b.SetBytes(128 * 2048)
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(memory)
				for i := range records {
					if err := builder.Add(records[i]); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := builder.Finish(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	for c := None; c < codecEnd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := build(b, c, benchRecords()...)
			b.SetBytes(128 * 2048)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range batch.Records {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
