package openapi

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/internal/plainjson"
)

// refusal says why no request can be made of the entities, in words that the model may read.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// request is what a call sends, but for the secrets.
type request struct {
	url    *url.URL
	header http.Header
	body   []byte // nil: none
}

// plainPath escapes what a path may not have, and nothing that is escaped already.
func plainPath(path string) string {
	var out strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case unreserved(c), strings.IndexByte("/%:@!$&'()*+,;=", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// dotted reports whether a path has a segment that leads elsewhere, as servers may read it: split at
// either slash, without what follows a semicolon, and decoded up to twice.
func dotted(path string) bool {
	for range 3 {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			name, _, _ := strings.Cut(segment, ";")
			if name = strings.TrimFunc(name, func(r rune) bool { return r <= ' ' }); name == "." || name == ".." {
				return true
			}
		}
		path = escaped.ReplaceAllStringFunc(path, func(triplet string) string {
			decoded, _ := hex.DecodeString(triplet[1:])
			return string(decoded)
		})
	}
	return false
}

var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func (in *input) segment(value any) (string, error) {
	if slices.ContainsFunc(texts(value), dotted) {
		return "", refuse("%s has a part . or .., which is not sent.", in.entity)
	}
	escape := url.PathEscape
	if in.reserved {
		escape = func(text string) string { return escapeWith(text, "/:@!$&'()*+,;=") }
	}
	var text string
	switch in.style {
	case "label":
		separator := ","
		if in.explode {
			separator = "."
		}
		text = "." + strings.Join(pieces(value, in.explode, escape), separator)
	case "matrix":
		switch list, isList := value.([]any); {
		case isList && in.explode:
			for _, one := range list {
				text += ";" + escape(in.name) + "=" + escape(plain(one))
			}
		case in.explode && isObject(value):
			text = ";" + strings.Join(pieces(value, true, escape), ";")
		default:
			text = ";" + escape(in.name) + "=" + strings.Join(pieces(value, false, escape), ",")
		}
	default:
		text = in.simple(value, escape)
	}
	if text == "" {
		return "", refuse("%s has no value that a path can have.", in.entity)
	}
	return text, nil
}

func isObject(value any) bool {
	_, is := value.(map[string]any)
	return is
}

func (in *input) simple(value any, escape func(string) string) string {
	return strings.Join(pieces(value, in.explode, escape), ",")
}

// pieces writes a value, the values of a list, or the names and values of an object: paired, or one after
// the other.
func pieces(value any, paired bool, escape func(string) string) (all []string) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			all = append(all, escape(plain(one)))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if value[name] == nil {
				continue
			}
			if paired {
				all = append(all, escape(name)+"="+escape(plain(value[name])))
			} else {
				all = append(all, escape(name), escape(plain(value[name])))
			}
		}
	default:
		all = append(all, escape(plain(value)))
	}
	return all
}

func texts(value any) (all []string) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			all = append(all, texts(one)...)
		}
	case map[string]any:
		for name, one := range value {
			all = append(append(all, name), texts(one)...)
		}
	default:
		all = append(all, plain(value))
	}
	return all
}

// plain writes a value as text; a list or an object in a place that has none as JSON.
func plain(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case json.Number:
		return value.String()
	}
	raw, err := plainjson.Marshal(value)
	if err != nil {
		return ""
	}
	return string(raw)
}

// query writes a value as parts of the query, such as a=1.
func (in *input) query(value any) (parts []string) {
	escape := func(text string) string {
		if in.reserved {
			return escapeWith(text, ":/?@!$'()*,") // the others have a meaning in queries
		}
		return escapeWith(text, "")
	}
	name := escapeWith(in.name, "")
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	switch {
	case isList && len(list) == 0, isObject && len(object) == 0:
		return nil
	case in.style == "deepObject" && (isObject || isList):
		return deep(name, value, escape)
	case in.explode && isList:
		for _, one := range list {
			parts = append(parts, name+"="+escape(plain(one)))
		}
		return parts
	case in.explode && isObject:
		return pieces(value, true, escape)
	}
	separator := cmp.Or(map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[in.style], ",")
	return []string{name + "=" + strings.Join(pieces(value, false, escape), separator)}
}

// deep writes an object as name[member]=value. For lists, of which the standard does not speak, it writes
// name[]=value and, if there is more in them, name[0][member]=value, as Stripe and others show it.
func deep(name string, value any, escape func(string) string) (parts []string) {
	within := func(member string) string { return name + "%5B" + escapeWith(member, "") + "%5D" }
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, deep(within(member), value[member], escape)...)
		}
	case []any:
		flat := !slices.ContainsFunc(value, func(one any) bool { _, isList := one.([]any); return isList || isObject(one) })
		for i, one := range value {
			at := strconv.Itoa(i)
			if flat {
				at = ""
			}
			parts = append(parts, deep(within(at), one, escape)...)
		}
	default:
		parts = append(parts, name+"="+escape(plain(value)))
	}
	return parts
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// escapeWith escapes a text for a query, but for the characters to keep.
func escapeWith(text, keep string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; unreserved(c) || strings.IndexByte(keep, c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// write puts the body into the request. What nothing was given for is left out if it may be.
func (b *body) write(r *request, value any, given bool) error {
	if value == nil && (b.isForm || b.isText) {
		given = false
	}
	if object, isObject := value.(map[string]any); !given || isObject && len(object) == 0 && !b.required {
		if b.required {
			return refuse("%s has no value.", bodyEntity)
		}
		return nil
	}
	switch {
	case b.isText:
		r.body = []byte(plain(value))
	case b.isForm:
		object, isObject := value.(map[string]any)
		if !isObject {
			return refuse("%s is no object.", bodyEntity)
		}
		r.body = []byte(strings.ReplaceAll(strings.Join(b.fields(object), "&"), "%20", "+"))
	default:
		var err error
		if r.body, err = plainjson.Marshal(value); err != nil {
			return err
		}
	}
	if len(r.body) > maxRequest {
		return refuse("%s is larger than %d MB.", bodyEntity, maxRequest>>20)
	}
	return nil
}

const maxRequest = 1 << 20

// fields writes the fields of a form. Where the document does not say how, a list is one field for each
// value, and an object is JSON.
func (b *body) fields(object map[string]any) (parts []string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		if value == nil {
			continue
		}
		in, said := b.form[name]
		if !said {
			in = input{name: name, style: "form", explode: true}
			if isObject(value) {
				value = plain(value)
			}
		}
		parts = append(parts, in.query(value)...)
	}
	return parts
}
