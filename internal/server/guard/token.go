package guard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"strandline.dev/internal/cluster/access"
)

// A token is written strandline_ID_SECRET: with a beginning that scanners for secrets can
// look for, and an id that is no secret. The secret has 130 bits of randomness, so its
// hash needs no salt and need not be slow.
const tokenPrefix = "strandline"

// maxToken bounds what is taken for a token, in bytes.
const maxToken = 256

func newToken() (id, text, hash string) {
	id, secret := strings.ToLower(rand.Text()[:12]), rand.Text()
	return id, tokenPrefix + "_" + id + "_" + secret, hashOf(secret)
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// idOf returns the id in the text of a token, and nothing of its secret; empty: there is
// none.
func idOf(text string) string {
	parts := strings.Split(strings.TrimSpace(text), "_")
	if len(text) > maxToken || len(parts) != 3 || parts[0] != tokenPrefix {
		return ""
	}
	return parts[1]
}

// tokenOf returns the token of a text, if it is valid now.
func tokenOf(rules *access.Rules, text string) (access.Token, bool) {
	parts := strings.Split(text, "_")
	if len(text) > maxToken || len(parts) != 3 || parts[0] != tokenPrefix {
		return access.Token{}, false
	}
	t, ok := rules.Token(parts[1], now())
	if !ok || subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hashOf(parts[2]))) == 0 {
		return access.Token{}, false
	}
	return t, true
}
