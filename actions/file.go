package actions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode"
)

// Reasons why a [File] cannot be opened that the person can do something about, for errors.Is. An
// action, or the handler of a route, may return such an error as it is: the person reads the reason.
var (
	// ErrFileGone says that the link to the file has expired, which in Teams it does after some
	// minutes. It does not help to try again.
	ErrFileGone = errors.New("the link to the file has expired, so the file has to be sent again")
	// ErrFileTooLarge says that the file is larger than 20 MiB.
	ErrFileTooLarge = errors.New("the file is larger than 20 MB")
	// ErrFileDenied says that the person may not open the file, or has not allowed the bot to.
	ErrFileDenied = errors.New("the person may not open this file, or has not allowed the bot to")
	// ErrFileNoText says that a document has pages and no text, as a scan has.
	ErrFileNoText = errors.New("the file has no text, as a scan has")
	// ErrFileDamaged says that a file is not what its format asks for.
	ErrFileDamaged = errors.New("the file is damaged")
	// ErrFileTooComplex says that reading a file takes more time or memory than it may.
	ErrFileTooComplex = errors.New("reading the file takes too much time or memory")
	// ErrFileLocked says that a file needs a password.
	ErrFileLocked = errors.New("the file needs a password")
)

// maxFile is how many bytes a file for a person may have. The bot stores it until they take it.
const maxFile = 10 << 20

// File is a file or picture that a person sent, see [Turn].Files, or one for a person, see
// [Result.WithFile].
type File struct {
	// Name is what the sender calls it, without folders. It may be any text, with markup and an
	// ending that does not fit the content. "": it has no name, as a pasted picture.
	Name string
	// Description says what it is, for the person who is asked to take it. It may be empty.
	Description string
	// Content is all of it. nil: Fetch gets it.
	Content []byte
	Fetch   func(ctx context.Context) ([]byte, error)
}

// Attached is what a model is shown of a file that a person sent: a picture, or text.
type Attached struct {
	Name string // of the file; "": it has none
	// Picture is a PNG or JPEG, as Type says, and About describes it: "image: 1024×768 png".
	Picture     []byte
	Type, About string
	// Text is from the file. The person may not have written it, so it is to be quoted.
	Text string
	// Gone says that the file came with an earlier message, and that its text is not kept any more.
	Gone bool
}

// Open returns a reader of the file, whose Size is the file's. A file that a person sent is downloaded
// each time. mediaType is what the first bytes look like, such as image/png or text/plain, whatever
// the sender and the name say: application/octet-stream if nothing is known, and application/zip for
// the formats of Office. It has no parameters.
//
// Errors: [ErrFileGone], [ErrFileTooLarge], that of the connection, or ctx's.
func (f File) Open(ctx context.Context) (content *bytes.Reader, mediaType string, err error) {
	all := f.Content
	if all == nil && f.Fetch != nil {
		if all, err = f.Fetch(ctx); err != nil {
			return nil, "", fmt.Errorf("open a file: %w", err)
		}
	}
	mediaType, _, err = mime.ParseMediaType(http.DetectContentType(all))
	return bytes.NewReader(all), mediaType, err
}

// fileName returns a name that OneDrive accepts for a file: without folders, control characters and the
// characters that it refuses, and not too long. It is never empty.
func fileName(name string) string {
	const most = 120 // characters
	name = strings.ToValidUTF8(name, "_")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf turns text around, or hides
			return -1
		case strings.ContainsRune(`"*:<>?|#%`, r):
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, " .~")
	if r := []rune(name); len(r) > most {
		ending := ""
		if i := strings.LastIndexByte(name, '.'); i >= 0 && len(name)-i < 12 {
			ending = name[i:]
		}
		name = string(r[:most-len([]rune(ending))]) + ending
	}
	return cmp.Or(name, "file")
}
