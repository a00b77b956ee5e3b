package activity

import "errors"

// Input is what all inputs have. ID is required: the name of the value in the data of
// the action that the person clicks.
type Input struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
	// Required keeps the person from clicking without it; Error then says why.
	Required bool   `json:"isRequired,omitzero"`
	Error    string `json:"errorMessage,omitempty"`
}

func (i Input) check() error {
	if i.ID == "" {
		return errors.New("an input without an id")
	}
	return nil
}

// TextInput asks for a text.
type TextInput struct {
	Input
	Value       string `json:"value,omitempty"`
	Placeholder string `json:"placeholder,omitempty"`
	Multiline   bool   `json:"isMultiline,omitzero"`
	MaxLength   int    `json:"maxLength,omitzero"`
}

// MarshalJSON writes the element.
func (i TextInput) MarshalJSON() ([]byte, error) {
	type plain TextInput
	return i.typed("Input.Text", plain(i))
}

// NumberInput asks for a number.
type NumberInput struct {
	Input
	Value       *float64 `json:"value,omitempty"`
	Min         *float64 `json:"min,omitempty"`
	Max         *float64 `json:"max,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
}

// MarshalJSON writes the element.
func (i NumberInput) MarshalJSON() ([]byte, error) {
	type plain NumberInput
	return i.typed("Input.Number", plain(i))
}

// DateInput asks for a date, as "2006-01-02".
type DateInput struct {
	Input
	Value string `json:"value,omitempty"`
}

// TimeInput asks for a time, as "15:04".
type TimeInput struct {
	Input
	Value string `json:"value,omitempty"`
}

// MarshalJSON writes the element.
func (i DateInput) MarshalJSON() ([]byte, error) {
	type plain DateInput
	return i.typed("Input.Date", plain(i))
}

// MarshalJSON writes the element.
func (i TimeInput) MarshalJSON() ([]byte, error) {
	type plain TimeInput
	return i.typed("Input.Time", plain(i))
}

// ToggleInput asks for yes or no: its value is the text "true" or "false".
type ToggleInput struct {
	Input
	Title string `json:"title"`
	Value string `json:"value,omitempty"`
}

// MarshalJSON writes the element.
func (i ToggleInput) MarshalJSON() ([]byte, error) {
	type plain ToggleInput
	return i.typed("Input.Toggle", plain(i))
}

// ChoiceInput lets the person choose; with Multi, several, whose values come with
// commas between.
type ChoiceInput struct {
	Input
	Choices []Choice `json:"choices"`
	Value   string   `json:"value,omitempty"`
	Multi   bool     `json:"isMultiSelect,omitzero"`
	// Style is "compact", a menu, or "expanded", a list.
	Style Style `json:"style,omitempty"`
}

// Choice is one of a [ChoiceInput].
type Choice struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// MarshalJSON writes the element.
func (i ChoiceInput) MarshalJSON() ([]byte, error) {
	type plain ChoiceInput
	return i.typed("Input.ChoiceSet", plain(i))
}

func (i Input) typed(name string, v any) ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	return typed(name, v)
}

func (Input) element() {}
