package record

import "fmt"

// Codec is how the records section of a batch is compressed. The numbers are
// Kafka's: bits 0 to 2 of the batch attributes.
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

// String is the codec's name as Kafka's configuration spells it.
func (c Codec) String() string {
	if !c.known() {
		return fmt.Sprintf("codec %d", uint8(c))
	}
	return codecNames[c]
}

// ParseCodec reads a name as String writes it.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: none, gzip, snappy, lz4 and zstd are known", name)
}

func (c Codec) known() bool { return c < codecEnd }
