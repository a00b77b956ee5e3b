// Package scenario runs conversations that are written down in files: what people do,
// what the model writes, and what the bot has to do then.
//
// [Read] reads files of JSON or YAML, strictly; [Run] plays a scenario in a bubble of
// virtual time, on a bot of its own, and says in what the bot did otherwise. It works in
// tests and in programs. docs/scenario.schema.json describes the format to editors.
package scenario
