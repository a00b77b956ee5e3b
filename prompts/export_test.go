package prompts

// ReadPrompt reads the folder of one prompt.
var ReadPrompt = readFolder

// TrimBytes cuts a text.
var TrimBytes = trimBytes

// Parse reads the text of a template.
var Parse = parse

// Template is what Parse reads.
type Template = template

// ErrTooLarge is in the errors of what is over these sizes.
var ErrTooLarge = errTooLarge

const (
	MaxTemplate = maxTemplate
	MaxRendered = maxRendered
)
