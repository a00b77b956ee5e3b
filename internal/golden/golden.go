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
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// UpdateVariable is the environment variable that asks for files to be written anew.
const UpdateVariable = "BOTTEST_UPDATE"

// T is what is needed of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Failed() bool
}

// Updating reports whether files are to be written anew: with BOTTEST_UPDATE=1, or with
// -update where the test binary has such a flag.
func Updating() bool {
	if yes, err := strconv.ParseBool(os.Getenv(UpdateVariable)); err == nil {
		return yes
	}
	f := flag.Lookup(updateFlag)
	return f != nil && f.Value.String() == "true"
}

const updateFlag = "update"

// HowTo says how files are written anew.
func HowTo() string {
	how := "go test with " + UpdateVariable + "=1 in the environment"
	if flag.Lookup(updateFlag) != nil {
		how += ", or with -" + updateFlag
	}
	return how
}

// Compare fails the test, and shows the difference, unless the file has that text. How lines
// end does not count: checkouts change that. When files are to be written anew, it has the text
// from now on, if the test has not failed.
func Compare(t T, file, got string) {
	t.Helper()
	if Updating() {
		if t.Failed() {
			return // what a bot says that does something wrong
		}
		if err := Write(file, []byte(got)); err != nil {
			t.Errorf("write what tests compare with: %v", err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	want, got := unixLines(string(raw)), unixLines(got)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("there is no %s yet; %s, writes it", file, HowTo())
	case err != nil:
		t.Errorf("read what tests compare with: %v", err)
	case want != got:
		t.Errorf("%s has something else; if this is meant, %s, writes it anew (-file +now):\n%s", file, HowTo(), Diff(want, got))
	}
}

// Diff shows in lines how the second text differs from the first: "" when it does not.
func Diff(a, b string) string {
	_, changes, _ := strings.Cut(string(diff.Diff("a", []byte(a), "b", []byte(b))), "@@\n")
	return changes
}

func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Write makes the file, and its folder if there is none.
func Write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
