// Package markup has what pages of HTML need beside gomponents: addresses that lead nowhere else.
//
// Gomponents escapes the text of elements and the values of attributes, but not what an address is: a link to
// "javascript:…" stays one. So pages make addresses here, and the linter forbids them the attributes of gomponents
// that take one, and its functions that do not escape.
package markup

import (
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Address leads to a view of the same program. A constant is one, and [At] makes one of what comes from elsewhere.
type Address string

// At is the address of what is below another one: parts of a path, each of which stays one part.
func At(base Address, parts ...string) Address {
	var path strings.Builder
	path.WriteString(string(base))
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(part))
	}
	return Address(path.String())
}

// With adds a parameter of the query.
func (a Address) With(name, value string) Address {
	separator := "?"
	if strings.Contains(string(a), "?") {
		separator = "&"
	}
	return a + Address(separator+url.QueryEscape(name)+"="+url.QueryEscape(value))
}

// Here is the address of an element of the same page.
func Here(id string) Address { return Address("#" + url.PathEscape(id)) }

// Href leads a link there.
func Href(to Address) g.Node { return h.Href(string(to)) }

// Src loads a script from there.
func Src(from Address) g.Node { return h.Src(string(from)) }

// Action sends a form there.
func Action(to Address) g.Node { return h.Action(string(to)) }

// FormAction sends the form of a button there.
func FormAction(to Address) g.Node { return h.FormAction(string(to)) }

// On is an attribute without a value, which is there or not.
func On(name string, is bool) g.Node { return g.If(is, g.Attr(name)) }
