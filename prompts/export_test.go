package prompts

// ReadPrompt reads the folder of one prompt.
var ReadPrompt = readFolder
