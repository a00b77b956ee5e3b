package activity

import "github.com/go-json-experiment/json/jsontext"

// Size is how large a text or a picture is. "": the client's default, as for all of these.
type Size string

// Weight is how bold a text is.
type Weight string

// Color is the color of a text, by what it means.
type Color string

// Style is how a container, a button or an input looks.
type Style string

// The values that are mostly wanted; the schema has more.
const (
	Small      Size = "small"
	Medium     Size = "medium"
	Large      Size = "large"
	ExtraLarge Size = "extraLarge"

	Lighter Weight = "lighter"
	Bolder  Weight = "bolder"

	Accent    Color = "accent"
	Good      Color = "good"
	Warning   Color = "warning"
	Attention Color = "attention"

	Emphasis    Style = "emphasis"
	Positive    Style = "positive"
	Destructive Style = "destructive"
)

// TextBlock is a text in the few marks of markdown that cards know. What people or
// models wrote is better shown by a [RichText], where marks mean nothing.
type TextBlock struct {
	Text   string
	Size   Size
	Weight Weight
	Color  Color
	Subtle bool
	// OneLine cuts the text at the end of its line.
	OneLine bool
}

// MarshalJSON writes the element.
func (t TextBlock) MarshalJSON() ([]byte, error) {
	return typed("TextBlock", struct {
		Text   string `json:"text"`
		Size   Size   `json:"size,omitempty"`
		Weight Weight `json:"weight,omitempty"`
		Color  Color  `json:"color,omitempty"`
		Subtle bool   `json:"isSubtle,omitzero"`
		Wrap   bool   `json:"wrap,omitzero"`
	}{t.Text, t.Size, t.Weight, t.Color, t.Subtle, !t.OneLine})
}

// RichText is a line of texts that are shown as they are, markdown included.
type RichText []TextRun

// MarshalJSON writes the element.
func (r RichText) MarshalJSON() ([]byte, error) {
	return typed("RichTextBlock", struct {
		Inlines []TextRun `json:"inlines"`
	}{r})
}

// TextRun is a part of a [RichText].
type TextRun struct {
	Text   string
	Size   Size
	Weight Weight
	Color  Color
	Subtle bool
	// Mono is a font whose letters are all equally wide.
	Mono bool
}

// MarshalJSON writes the part.
func (t TextRun) MarshalJSON() ([]byte, error) {
	font := ""
	if t.Mono {
		font = "monospace"
	}
	return typed("TextRun", struct {
		Text   string `json:"text"`
		Size   Size   `json:"size,omitempty"`
		Weight Weight `json:"weight,omitempty"`
		Color  Color  `json:"color,omitempty"`
		Subtle bool   `json:"isSubtle,omitzero"`
		Font   string `json:"fontType,omitempty"`
	}{t.Text, t.Size, t.Weight, t.Color, t.Subtle, font})
}

// Facts is a table of names and values.
type Facts []Fact

// Fact is a line of [Facts].
type Fact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// MarshalJSON writes the element.
func (f Facts) MarshalJSON() ([]byte, error) {
	return typed("FactSet", struct {
		Facts []Fact `json:"facts"`
	}{f})
}

// Image is a picture, by an https address. Alt says in words what it shows.
type Image struct {
	URL  string `json:"url"`
	Alt  string `json:"altText,omitempty"`
	Size Size   `json:"size,omitempty"`
}

// MarshalJSON writes the element.
func (i Image) MarshalJSON() ([]byte, error) {
	type plain Image
	return typed("Image", plain(i))
}

// Container groups elements.
type Container struct {
	Items []Element
	Style Style
	// ID names it for a [Toggle]; Hidden keeps it unseen until one shows it.
	ID     string
	Hidden bool
}

// MarshalJSON writes the element.
func (c Container) MarshalJSON() ([]byte, error) {
	var visible *bool // by default
	if c.Hidden {
		visible = new(bool)
	}
	return typed("Container", struct {
		Items   []Element `json:"items"`
		Style   Style     `json:"style,omitempty"`
		ID      string    `json:"id,omitempty"`
		Visible *bool     `json:"isVisible,omitempty"`
	}{c.Items, c.Style, c.ID, visible})
}

// Columns stand side by side.
type Columns []Column

// Column is one of [Columns]. Width is "auto", "stretch", a share such as "2", or
// "50px".
type Column struct {
	Items []Element `json:"items"`
	Width string    `json:"width,omitempty"`
}

// MarshalJSON writes the column.
func (c Column) MarshalJSON() ([]byte, error) {
	type plain Column
	return typed("Column", plain(c))
}

// MarshalJSON writes the element.
func (c Columns) MarshalJSON() ([]byte, error) {
	return typed("ColumnSet", struct {
		Columns []Column `json:"columns"`
	}{c})
}

// ActionSet are buttons within the body.
type ActionSet []Action

// MarshalJSON writes the element.
func (a ActionSet) MarshalJSON() ([]byte, error) {
	return typed("ActionSet", struct {
		Actions []Action `json:"actions"`
	}{a})
}

// RawElement is any other element, as JSON.
type RawElement jsontext.Value

// MarshalJSON returns it.
func (r RawElement) MarshalJSON() ([]byte, error) { return r, nil }

func (TextBlock) element()  {}
func (RichText) element()   {}
func (Facts) element()      {}
func (Image) element()      {}
func (Container) element()  {}
func (Columns) element()    {}
func (ActionSet) element()  {}
func (RawElement) element() {}
