package prompts

// ReadPrompt reads the folder of one prompt.
var ReadPrompt = readFolder

// AsYAML writes JSON as YAML.
var AsYAML = asYAML
