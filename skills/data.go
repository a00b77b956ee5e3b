package skills

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// Data is what a resource holds.
type Data struct {
	Bytes []byte
	// MediaType is what the bytes are, such as image/png or text/markdown; charsets are
	// left out.
	MediaType string
	// Binary says that the bytes are no text: they are for actions, not for prompts.
	Binary bool
}

// Describe says what raw is. Text is valid UTF-8 without NUL, whatever the name says; which
// sort of text it is, is taken from the name.
func Describe(name string, raw []byte) Data {
	d := Data{Bytes: raw, Binary: !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0}
	if d.MediaType = textType(name); d.MediaType == "" || d.Binary {
		d.MediaType, _, _ = strings.Cut(http.DetectContentType(raw), ";")
	}
	return d
}

// textType is the type of the texts that skills have beside them, "" for other names. The
// tables of the mime package are not used: they differ from machine to machine.
func textType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md":
		return "text/markdown"
	case ".json":
		return "application/json"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".csv":
		return "text/csv"
	case ".xml":
		return "application/xml"
	}
	return ""
}

// String is the text without a byte order mark, or, for what is no text, what it is:
// "binary, 1234 bytes, image/png".
func (d Data) String() string {
	if d.Binary {
		return fmt.Sprintf("binary, %d bytes, %s", len(d.Bytes), d.MediaType)
	}
	return strings.TrimPrefix(string(d.Bytes), "\ufeff")
}
