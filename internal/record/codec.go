package record

import "fmt"

// Codec is the compression of the records section of a batch. The numbers are Kafka's: bits 0 to
// 2 of the batch attributes.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
	codecEnd
)

var codecNames = [codecEnd]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the codec's name as in Kafka's configuration.
func (c Codec) String() string {
	if !c.known() {
		return fmt.Sprintf("codec %d", uint8(c))
	}
	return codecNames[c]
}

// ParseCodec parses the result of String.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: use none, gzip, snappy, lz4 or zstd", name)
}

func (c Codec) known() bool { return c < codecEnd }
