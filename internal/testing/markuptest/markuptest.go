// Package markuptest sends markup through every field of a view.
package markuptest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// hostile are texts that must stay texts, wherever a view has them.
var hostile = []string{
	`<script>alert(1)</script>`,
	`</title></textarea></pre><img src=x onerror=alert(1)>`,
	`"><svg onload=alert(1)>`,
	`' onfocus=alert(1) autofocus x='`,
	`javascript:alert(1)`,
	`//evil.example/`,
	`../../evil?x=1#y&amp;"<`,
	`data:text/html,<script>alert(1)</script>`,
	"a`b{{.}}${1}",
}

// Check renders a view whose texts are all the same: first a word, then markup. The elements and attributes have to
// stay what they are, addresses must lead to the same program, and the text has to be there as it is. The view is
// made by render of a value of type T, once where all is true and once where nothing is.
func Check[T any](t *testing.T, render func(view T) (string, error)) {
	t.Helper()
	for _, is := range []bool{true, false} {
		page := func(text string) *html.Node {
			var view T
			fill(reflect.ValueOf(&view).Elem(), text, is, 0)
			out, err := render(view)
			if err != nil {
				t.Fatal(err)
			}
			root, err := html.Parse(strings.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			return root
		}
		plain := page("word")
		want := shape(plain)
		if !has(plain, "word") {
			t.Errorf("where all is %t, the view shows none of its fields", is)
		}
		for _, text := range hostile {
			root := page(text)
			if got := shape(root); got != want {
				t.Errorf("%q changes what is in the view:\n%s", text, firstDifference(want, got))
			}
			if !has(root, text) {
				t.Errorf("%q is not shown as it is", text)
			}
			for n := range root.Descendants() {
				checkElement(t, n)
			}
		}
	}
}

// checkElement looks for what runs or leads elsewhere.
func checkElement(t *testing.T, n *html.Node) {
	t.Helper()
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
			t.Errorf("<%s> has %s", n.Data, a.Key)
		case slices.Contains([]string{"href", "src", "action", "formaction", "srcset", "poster", "data", "cite", "ping", "background"}, a.Key):
			leaves := strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, `/\`)
			isLocal := strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "#")
			if leaves || !isLocal || strings.Contains(a.Val, "/../") || strings.Contains(a.Val, "evil.example/") {
				t.Errorf("<%s> leads to %q", n.Data, a.Val)
			}
		}
	}
	hasSource := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "src" })
	if n.Type == html.ElementNode && n.Data == "script" && (n.FirstChild != nil || !hasSource) {
		t.Errorf("there is a script within the view")
	}
}

// shape is which elements and attributes there are, without texts and values.
func shape(root *html.Node) string {
	var out strings.Builder
	var write func(n *html.Node, depth int)
	write = func(n *html.Node, depth int) {
		if n.Type == html.ElementNode {
			fmt.Fprintf(&out, "%*s%s", depth, "", n.Data)
			for _, a := range n.Attr {
				fmt.Fprintf(&out, " %s", a.Key)
			}
			out.WriteByte('\n')
		}
		for child := range n.ChildNodes() {
			write(child, depth+1)
		}
	}
	write(root, 0)
	return out.String()
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %s\nis now:  %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines are %d now", len(a), len(b))
}

func has(root *html.Node, text string) bool {
	for n := range root.Descendants() {
		inValue := func(a html.Attribute) bool { return strings.Contains(a.Val, text) }
		if n.Type == html.TextNode && strings.Contains(n.Data, text) || slices.ContainsFunc(n.Attr, inValue) {
			return true
		}
	}
	return false
}

const maxDepth = 8 // ends types that have themselves

// fill puts the text into everything that can have one. Lists have two elements.
func fill(v reflect.Value, text string, is bool, depth int) {
	if depth > maxDepth || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(is)
	case reflect.Int, reflect.Int64, reflect.Int32:
		if is {
			v.SetInt(2)
		}
	case reflect.Uint64, reflect.Uint32, reflect.Uint:
		v.SetUint(2)
	case reflect.Float64:
		v.SetFloat(.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, is, depth+1)
	case reflect.Interface:
		if reflect.TypeFor[string]().AssignableTo(v.Type()) {
			v.Set(reflect.ValueOf(text))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text, is, depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), text, is, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // JSON
			raw, err := json.Marshal(text)
			if err == nil {
				v.SetBytes(raw)
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text, is, depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, is, depth+1)
		fill(value, text, is, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default: // nothing that a view shows
	}
}
