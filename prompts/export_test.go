package prompts

import "context"

// ReadPrompt reads the folder of one prompt.
var ReadPrompt = readFolder

// Parse reads the text of a template.
var Parse = parse

// Template is what Parse reads.
type Template = template

const MaxTemplate = maxTemplate

// Func is a function that templates can call.
type Func = func(ctx context.Context, args []string) (any, error)

// Data is what a template is rendered with.
type Data struct {
	Vars  func(scope, name string) (any, error)
	Funcs map[string]Func
}

// RenderWith renders a template.
func (t *template) RenderWith(ctx context.Context, d Data) (string, error) {
	return t.Render(ctx, d.Vars, d.Funcs)
}
