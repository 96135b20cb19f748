package workload

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// samples is how many sample records there are.
const samples = 50

// Samples makes 50 records as a graph store would append them to its log: a
// header, and mutations with a key, field names and values. Their sizes lie
// between about 100 bytes and 4 KiB; half of their bytes repeat, as those of
// real ones do, so that compression has something to find. They are the same
// every time.
func Samples() [][]byte {
	random := rand.New(rand.NewChaCha8([32]byte([]byte("fifty records of a graph store.."))))
	kinds := []string{"vertex", "edge", "index", "schema", "fence"}
	fields := []string{"name", "since", "weight", "owner", "label", "valid_from", "valid_to", "origin"}
	all := make([][]byte, samples)
	for i := range all {
		var b []byte
		b = binary.BigEndian.AppendUint64(b, uint64(1_700_000_000_000_000+i*1_337))
		b = binary.BigEndian.AppendUint32(b, uint32(random.Uint32()))
		for range 1 + random.IntN(24)*random.IntN(2) {
			b = fmt.Appendf(b, "%s/%08d{", kinds[random.IntN(len(kinds))], random.IntN(50_000_000))
			for range 2 + random.IntN(4) {
				b = fmt.Appendf(b, "%s=", fields[random.IntN(len(fields))])
				b = binary.BigEndian.AppendUint64(b, random.Uint64())
				b = binary.BigEndian.AppendUint64(b, random.Uint64())
				b = append(b, ';')
			}
			b = append(b, '}')
		}
		all[i] = b[:len(b):len(b)]
	}
	return all
}
