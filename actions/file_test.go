package actions_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
)

func TestFileIsOpened(t *testing.T) {
	t.Parallel()
	fails := errors.New("the drive is away")
	tests := []struct {
		name string
		file actions.File
		kind string
		text string
		err  error
	}{
		{"text", actions.File{Content: []byte("hello")}, "text/plain", "hello", nil},
		{"picture named as text", actions.File{Name: "a.txt", Content: []byte("\x89PNG\r\n\x1a\n")}, "image/png", "\x89PNG\r\n\x1a\n", nil},
		{"unknown bytes", actions.File{Content: []byte{0, 1, 2}}, "application/octet-stream", "\x00\x01\x02", nil},
		{"nothing", actions.File{}, "text/plain", "", nil},
		{"fetched", actions.File{Fetch: func(context.Context) ([]byte, error) { return []byte("<html>"), nil }}, "text/html", "<html>", nil},
		{"not fetched", actions.File{Fetch: func(context.Context) ([]byte, error) { return nil, fails }}, "", "", fails},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			content, kind, err := tt.file.Open(t.Context())
			if !errors.Is(err, tt.err) || kind != tt.kind {
				t.Fatalf("%q, err %v", kind, err)
			}
			if err != nil {
				return
			}
			if text, _ := io.ReadAll(content); string(text) != tt.text || content.Size() != int64(len(tt.text)) {
				t.Errorf("content %q of %d bytes", text, content.Size())
			}
		})
	}
}

func TestFilesOfResults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 200) + ".csv"
	for name, want := range map[string]string{
		"list.csv": "list.csv", "": "file", "..": "file", "../../etc/passwd": "passwd", `C:\temp\a.txt`: "a.txt",
		`<b>"x"|y*?.txt`: "_b__x__y__.txt", "a\u202etxt.exe": "atxt.exe", " .a. ": "a", "\xff.txt": "_.txt", "one\ntwo.txt": "onetwo.txt",
		long: strings.Repeat("ä", 116) + ".csv",
	} {
		files := actions.Done.WithFile(actions.File{Name: name, Content: []byte("1")}).Files()
		if len(files) != 1 || files[0].Name != want {
			t.Errorf("%q becomes %+v, want %q", name, files, want)
		}
	}
	both := actions.Text("two").WithFile(actions.File{Name: "a", Content: []byte("1")})
	other := both.WithFile(actions.File{Name: "b", Content: []byte("1")})
	another := both.WithFile(actions.File{Name: "c", Content: []byte("1")})
	if len(both.Files()) != 1 || other.Files()[1].Name != "b" || another.Files()[1].Name != "c" || other.Text() != "two" {
		t.Errorf("results share their files: %v, %v, %v", both, other, another)
	}
	for _, size := range []int{0, 10<<20 + 1} {
		if r := both.WithFile(actions.File{Name: "a", Content: make([]byte, size)}); !r.Failed() || len(r.Files()) != 0 {
			t.Errorf("a file of %d bytes: %q", size, r.Text())
		}
	}
}
