package connections

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/internal/spelling"
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
	// FirstUse accepts, for connections that the lock does not have, what the service shows first. It is
	// for development: package app sets it in local mode. Set it before the lock is used.
	FirstUse bool

	mu      sync.Mutex
	version int
	pins    map[string]map[string]Pin // the inner maps are never changed
}

// Pin is one accepted definition.
type Pin struct {
	Digest     string         `json:"digest"`
	Definition jsontext.Value `json:"definition"`
}

// lockFile is the form of actions.lock.
type lockFile struct {
	Version     int                       `json:"version"`
	Connections map[string]map[string]Pin `json:"connections"`
}

const (
	lockVersion  = 1
	maxLockBytes = 64 << 20
)

// NewLock returns a lock without pins.
func NewLock() *Lock { return &Lock{pins: map[string]map[string]Pin{}} }

// LockName is what the file of a lock is called, beside the file that describes a bot.
const LockName = "actions.lock"

// ReadLock reads a lock file. Where there is none, or an empty one, the lock has no pins: nobody has accepted
// anything yet. The error names every pin whose digest is not that of its definition: somebody has edited the
// file.
func ReadLock(path string) (*Lock, error) {
	path = filepath.Clean(path)
	return readLock(os.DirFS(filepath.Dir(path)), filepath.Base(path), path)
}

// ReadLockFS is [ReadLock] in a file system, such as an [embed.FS].
func ReadLockFS(fsys fs.FS, name string) (*Lock, error) { return readLock(fsys, name, name) }

func readLock(fsys fs.FS, name, shown string) (*Lock, error) {
	raw, err := readLockFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(raw)) == 0 {
		return NewLock(), nil
	}
	var file lockFile
	if err == nil {
		err = json.Unmarshal(raw, &file, json.RejectUnknownMembers(true))
	}
	if err == nil && file.Version != lockVersion {
		err = fmt.Errorf("version %d, want %d", file.Version, lockVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("read lock %s: %w", shown, err)
	}
	lock, faults := NewLock(), []error(nil)
	for _, key := range slices.Sorted(maps.Keys(file.Connections)) {
		if err := CheckKey(key); err != nil {
			faults = append(faults, err)
		}
		for _, remote := range slices.Sorted(maps.Keys(file.Connections[key])) {
			pin := file.Connections[key][remote]
			if digest, err := Digest(pin.Definition); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", key, spelling.OneLine(remote, maxShownName), err))
			} else if digest != pin.Digest {
				faults = append(faults, fmt.Errorf("%s: %s: the digest is not that of the definition", key, spelling.OneLine(remote, maxShownName)))
			}
		}
		lock.pins[key] = file.Connections[key]
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("read lock %s: %w", shown, err)
	}
	return lock, nil
}

func readLockFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(f, maxLockBytes+1))
	if err == nil && len(raw) > maxLockBytes {
		err = fmt.Errorf("more than %d bytes", maxLockBytes)
	}
	return raw, err
}

// Pins returns the accepted definitions of a connection by the service's own names. known says whether the
// lock has the connection; it may have it without pins. Do not change the map.
func (l *Lock) Pins(key string) (pins map[string]Pin, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pins, known = l.pins[key]
	return pins, known
}

// Version changes whenever the lock does: what somebody has made of its pins holds while it is the same.
func (l *Lock) Version() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Set replaces the accepted definitions of a connection. The digests are computed here. The error names
// every definition that has none, see [Digest]; then nothing is replaced.
func (l *Lock) Set(key string, definitions map[string]jsontext.Value) error {
	pins, faults := make(map[string]Pin, len(definitions)), []error{CheckKey(key)}
	for _, remote := range slices.Sorted(maps.Keys(definitions)) {
		digest, err := Digest(definitions[remote])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", spelling.OneLine(remote, maxShownName), err))
		}
		pins[remote] = Pin{Digest: digest, Definition: definitions[remote].Clone()}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("pin %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[key] = pins
	l.version++
	return nil
}

// Write replaces the file with the lock, sorted and indented, so that versions of it can be compared line
// by line and nothing in it is invisible. A reader never sees half of it.
func (l *Lock) Write(path string) error {
	l.mu.Lock()
	file := lockFile{Version: lockVersion, Connections: maps.Clone(l.pins)}
	l.mu.Unlock()
	raw, err := json.Marshal(file, json.Deterministic(true))
	text := jsontext.Value(raw)
	if err == nil {
		err = text.Format(jsontext.ReorderRawObjects(true), jsontext.WithIndent("  "))
	}
	if err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	const readable = 0o644
	_, err = f.WriteString(Visible(string(text)) + "\n")
	err = errors.Join(err, f.Chmod(readable), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write lock %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Diff says for people what is different in a newer lock, by connection and name. Each text begins with a line such
// as
//
//	changed mail send 2cf3dc1aa18c… -> 414d07406ea2…
//
// with both digests whole. Then come the lines of both definitions that are not the same, with - and +. What is
// not seen, such as marks that change the direction of writing, is shown as \u and its number.
func (l *Lock) Diff(newer *Lock) (changes []string) {
	before, after := l.clone(), newer.clone()
	for _, key := range names(before, after) {
		for _, remote := range names(before[key], after[key]) {
			if old, now := before[key][remote], after[key][remote]; old.Digest != now.Digest {
				changes = append(changes, changed(key+" "+spelling.OneLine(remote, maxShownName), old, now))
			}
		}
	}
	return changes
}

func (l *Lock) clone() map[string]map[string]Pin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.pins)
}

// names are the keys of both maps, sorted.
func names[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

const maxShownName = 128 // how many characters of a service's own name for an action people read

// changed is the text of one change. A pin without a digest is none.
func changed(name string, old, now Pin) (text string) {
	switch {
	case old.Digest == "":
		text = "added " + name + " " + now.Digest
	case now.Digest == "":
		text = "removed " + name + " " + old.Digest
	default:
		text = "changed " + name + " " + old.Digest + " -> " + now.Digest
	}
	before, after := linesOf(old.Definition), linesOf(now.Definition)
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	for _, line := range before[head : len(before)-tail] {
		text += "\n  - " + line
	}
	for _, line := range after[head : len(after)-tail] {
		text += "\n  + " + line
	}
	return text
}

// linesOf writes a definition for people; nil: there is none.
func linesOf(definition jsontext.Value) []string {
	if definition == nil {
		return nil
	}
	text := definition.Clone()
	if err := text.Format(jsontext.ReorderRawObjects(true), jsontext.WithIndent("  ")); err != nil {
		return []string{"(no JSON)"}
	}
	return strings.Split(Visible(string(text)), "\n")
}

// Visible returns a text with everything that is not seen as \u and its number: control characters but
// line feeds and tabs, marks that change the direction of writing, and the like.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n', r == '\t', unicode.IsGraphic(r) && (r == ' ' || !unicode.IsSpace(r)):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
