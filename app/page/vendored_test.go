package page_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVendored compares each file of others with the hash that stands beside it.
func TestVendored(t *testing.T) {
	t.Parallel()
	sums, err := filepath.Glob("vendored/*/SHA256*")
	if err != nil || len(sums) == 0 {
		t.Fatalf("there are no hashes: %v", err)
	}
	for _, file := range sums {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(file)
		checked := map[string]bool{filepath.Base(file): true, "LICENSE": true, "NOTICE": true}
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if len(fields) != 2 {
				t.Fatalf("%s: %q is no hash and name", file, line)
			}
			content, err := os.ReadFile(filepath.Join(dir, filepath.Base(strings.TrimPrefix(fields[1], "*"))))
			if is := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || is != fields[0] {
				t.Errorf("%s has the hash %s, not %s (%v)", fields[1], is, fields[0], err)
			}
			checked[filepath.Base(fields[1])] = true
		}
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if !checked[f.Name()] {
				t.Errorf("%s has no hash in %s", f.Name(), file)
			}
		}
	}
}
