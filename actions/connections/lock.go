package connections

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest identifies a definition: the SHA-256 of its canonical JSON (RFC 8785), in hex. It returns an
// error if the definition is no JSON, has a member twice, or text that is not Unicode.
func Digest(definition jsontext.Value) (string, error) {
	canonical := definition.Clone()
	if err := canonical.Canonicalize(); err != nil {
		return "", fmt.Errorf("definition: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Lock has the definitions of actions that an operator has accepted, by connection and the service's own
// names, as actions.lock keeps them. It is safe for concurrent use.
type Lock struct {
	mu   sync.Mutex
	path string
	pins map[string]map[string]Pin
}

// Pin is one accepted definition.
type Pin struct {
	Digest     string         `json:"digest"`
	Definition jsontext.Value `json:"definition"`
}
