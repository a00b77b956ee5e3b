// Package golden keeps what tests compare with in files, which tests write anew when that
// is asked for: prompts of models above all, as text.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// UpdateVariable is the environment variable that asks for files to be written anew.
const UpdateVariable = "BOTTEST_UPDATE"

// T is what is needed of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Updating reports whether files are to be written anew: with BOTTEST_UPDATE=1, or with
// -update where the test binary has such a flag.
func Updating() bool {
	if yes, err := strconv.ParseBool(os.Getenv(UpdateVariable)); err == nil {
		return yes
	}
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// HowTo says how files are written anew.
const HowTo = "go test with " + UpdateVariable + "=1 in the environment, or with -update"

// Compare fails the test, and shows the difference, unless the file has that text. When
// files are to be written anew, it has it from now on.
func Compare(t T, file, got string) {
	t.Helper()
	if Updating() {
		if err := Write(file, []byte(got)); err != nil {
			t.Errorf("write what tests compare with: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("there is no %s yet; %s, writes it", file, HowTo)
	case err != nil:
		t.Errorf("read what tests compare with: %v", err)
	case string(want) != got:
		t.Errorf("%s has something else; if this is meant, %s, writes it anew (-file +now):\n%s", file, HowTo, Diff(string(want), got))
	}
}

// Write makes the file, and its folder if there is none.
func Write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
