package sim

import (
	"fmt"
	"os"
	"testing"
)

func TestDebug(t *testing.T) {
	var seed uint64
	fmt.Sscan(os.Getenv("SEED"), &seed)
	debug = true
	r := Run(seed, Options{})
	fmt.Println(r, r.Problem)
}
