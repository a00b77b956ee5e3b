// Package prompts holds what the model is told: prompt folders with a small template language, the
// history of a conversation, and the token counts that limit it.
//
// Prompts are plain text files. This package embeds its own; [Load] overrides them with an
// operator's folder.
//
// A person's text never becomes part of a template: values are inserted unchanged and never parsed
// again, and the text of the turn is a separate message.
package prompts

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Message is one message to the model. It is this package's own small type; callers convert it to
// their model's type.
type Message struct {
	Role string `json:"role"` // system, user or assistant
	Text string `json:"text"`
}

// Prompt is one prompt: its text, and the config.json and actions.json of its folder. It is
// immutable and safe for concurrent use.
type Prompt struct {
	*template
	Config Config
	// Actions are the actions that the prompt offers, in order. nil: there is no actions.json, and
	// all registered ones are offered.
	Actions []offer

	builtin bool // it is embedded
}

// offer is an action that a prompt offers.
type offer struct {
	Name        string         `json:"name"`
	Description string         `json:"description"` // shown to the model; "": the registered one
	Parameters  jsontext.Value `json:"parameters"`  // JSON Schema, checked against the registered one; nil: none
}

// Config is the config.json of a prompt. A zero field is not set.
type Config struct {
	Description  string  `json:"-"`
	Augmentation string  `json:"-"` // how the model plans: none, monologue, sequence, sequential or tools
	Input        []Input `json:"-"` // parameters of a prompt action; nil: not an action

	// DataSources are searched with what the person says before the model is asked: how many tokens what is
	// found may have, by the name of the source.
	DataSources map[string]int `json:"-"`

	MaxTokens      int    `json:"max_tokens"`       // of the answer
	MaxInputTokens int    `json:"max_input_tokens"` // of everything sent to the model
	Model          string `json:"model"`

	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	Stop             []string `json:"stop_sequences"`

	IncludeHistory *bool `json:"include_history"` // earlier turns
	IncludeInput   *bool `json:"include_input"`   // the person's text, as a separate message
	IncludeImages  bool  `json:"include_images"`  // pictures of the person's message, for a model that sees

	ToolChoice    string `json:"tool_choice"`         // auto, required or none
	ParallelCalls *bool  `json:"parallel_tool_calls"` // more than one tool call at a time
}

// Input is one parameter of a prompt action. Its value is a text.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"defaultValue"`
	Required    bool   `json:"-"`
}

// Part is a message of a prompt.
type Part struct {
	Role string // system, user or assistant
	*Prompt
}

// Chat returns the messages of a text in Semantic Kernel's chat markup, <message role="user">…</message>. Only the
// text itself can have it: a value is never read as markup. What stands before the first message is the system's, and
// behind it the user's. nil: the text has no such markup. The error lists what is wrong with it.
func (p *Prompt) Chat() (parts []Part, err error) {
	part, open, found := Part{Role: "system", Prompt: p.empty()}, false, false
	var faults []error
	next := func(role string) {
		if !part.blank() {
			parts = append(parts, part)
		}
		part = Part{Role: role, Prompt: p.empty()}
	}
	for _, n := range p.nodes {
		text := n.text
		if n.name != "" {
			part.nodes = append(part.nodes, n)
		}
		for n.name == "" && text != "" {
			tag := messageTag.FindStringSubmatchIndex(text)
			before, behind := len(text), len(text)
			if tag != nil {
				before, behind = tag[0], tag[1]
			}
			isTag, opens := tag != nil, tag != nil && tag[2] >= 0
			if isTag && !opens && !open { // what it ends has no role, so it is text
				isTag, before = false, behind
			}
			if before > 0 && open {
				part.nodes = append(part.nodes, node{text: html.UnescapeString(text[:before])})
			} else if before > 0 {
				part.nodes = append(part.nodes, node{text: text[:before]})
			}
			switch {
			case !isTag:
			case opens && open:
				faults = append(faults, fmt.Errorf("%s: a <message> stands within a <message>", p.Name()))
			default:
				next("user")
				if open = opens; open {
					found = true
					part.Role = strings.ToLower(text[tag[2]:tag[3]])
				}
			}
			text = text[behind:]
		}
	}
	next("")
	if !found {
		return nil, nil
	}
	if open {
		faults = append(faults, fmt.Errorf("%s: a <message> is never closed by </message>", p.Name()))
	}
	return parts, errors.Join(faults...)
}

// messageTag matches a tag of chat markup: the beginning of a message, with its role, or the end of one.
var messageTag = regexp.MustCompile(`\s*(?:<message\s[^<>]*\brole\s*=\s*["'](?i:(system|user|assistant))["'][^<>]*>|</message>)\s*`)

// empty is the prompt without its text.
func (p *Prompt) empty() *Prompt {
	return &Prompt{template: &template{name: p.Name()}, Config: p.Config}
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// passedOver reports whether an entry does not belong to a prompt: a hidden one, such as the ..data
// of a mounted ConfigMap, or notes.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.EqualFold(path.Ext(name), ".md")
}

// readFolder reads the folder of one prompt. The error lists every fault; with it comes what could
// be read, or nil if the folder is not a prompt's. A file without any effect is a fault, because
// its author expects one.
func readFolder(fsys fs.FS, folder string) (*Prompt, error) {
	plugin, function, inPlugin := strings.Cut(folder, "/")
	name := plugin
	if inPlugin {
		name = plugin + "-" + function
	}
	entries, err := fs.ReadDir(fsys, folder)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: is no prompt's folder: %w", folder, err)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%q: name a prompt with at most 64 letters, digits, _ or -", name)
	}
	p := &Prompt{template: &template{name: name}}
	var faults []error
	texts, textFault := 0, error(nil)
	for _, entry := range entries {
		file := path.Join(folder, entry.Name())
		var fault error
		switch base := entry.Name(); base {
		case "config.json":
			p.Config, fault = readConfig(fsys, file)
		case "actions.json":
			p.Actions, fault = readOffers(fsys, file)
		case "prompt.txt", "skprompt.txt":
			if texts++; texts == 1 {
				p.nodes, textFault = readTemplate(fsys, file)
				fault = textFault
			} else {
				fault = fmt.Errorf("%s: both prompt.txt and skprompt.txt", folder)
			}
		default:
			if !passedOver(base) {
				fault = fmt.Errorf("%s: has no meaning here, a prompt is prompt.txt, config.json and actions.json", file)
			}
		}
		faults = append(faults, fault)
	}
	switch {
	case texts == 0:
		faults = append(faults, fmt.Errorf("%s: no prompt.txt", folder))
	case textFault == nil:
		planners := p.takePlanners()
		if inPlugin && !planners {
			p.addInputs()
		}
		faults = append(faults, p.unseenInputs(path.Join(folder, "config.json")))
	}
	return p, errors.Join(faults...)
}

// takePlanners reports whether the parameters are those that a planner fills in: the goal and, as in Semantic Kernel's
// planner, its functions. Such a prompt is no action, so it has no parameters then.
func (p *Prompt) takePlanners() bool {
	isPlanners, lists := p.ours(), false
	for _, in := range p.Config.Input {
		switch {
		case strings.EqualFold(in.Name, "available_functions"):
			isPlanners, lists = true, true
		case !strings.EqualFold(in.Name, "input"):
			return false
		}
	}
	if !isPlanners || len(p.Config.Input) == 0 {
		return false
	}
	if p.Config.Input = nil; lists && p.Config.Augmentation == "" {
		p.Config.Augmentation = sequential
	}
	return true
}

// ours reports whether an embedded prompt has the name, in any case.
func (p *Prompt) ours() bool {
	_, err := fs.Stat(embedded, strings.ToLower(p.Name()))
	return err == nil
}

// The planners that config.json and the embedded prompts name, as far as a prompt of another name may be theirs.
const (
	sequence   = "sequence"
	sequential = "sequential"
	monologue  = "monologue"
)

// Planner is the planner that the prompt says it is for, by its name or in augmentation_type; "": it does not say.
func (p *Prompt) Planner() string {
	switch a := p.Config.Augmentation; {
	case p.Config.Input != nil || a == "none":
		return ""
	case a == monologue:
		return sequence
	case a != "":
		return a
	case p.ours():
		return strings.ToLower(p.Name())
	}
	return ""
}

// For returns the name of the prompt for a planner: the folder of that name or, without one, the only folder of another
// name that says so, as those of Teams AI do in augmentation_type.
func (l *Library) For(planner string) string {
	all := *l.prompts.Load()
	name, others := planner, 0
	for _, other := range l.Names() {
		p := all[other]
		switch {
		case p.builtin || p.Planner() != planner:
		case other == planner:
			return planner
		default:
			name, others = other, others+1
		}
	}
	if others > 1 {
		return planner
	}
	return name
}

// addInputs makes an action of a prompt in a plugin's folder, as Semantic Kernel does: each variable of the
// text that config.json does not declare is a parameter too.
func (p *Prompt) addInputs() {
	if p.Config.Input == nil {
		p.Config.Input = []Input{}
	}
	for _, n := range p.nodes {
		for _, v := range slices.Concat([]node{n}, n.args) {
			declared := func(in Input) bool { return strings.EqualFold(in.Name, v.name) }
			if v.scope == "temp" && !slices.ContainsFunc(p.Config.Input, declared) {
				p.Config.Input = append(p.Config.Input, Input{Name: v.name, Required: true})
			}
		}
	}
}

// unseenInputs reports parameters of a prompt action that would never reach the model. {{$input}}
// is the parameter called input, or the only one.
func (p *Prompt) unseenInputs(file string) error {
	variables := p.Variables()
	shows := func(name string) bool {
		return slices.ContainsFunc(variables, func(v string) bool { return strings.EqualFold(v, "temp."+name) })
	}
	inputs := p.Config.Input
	input := shows("input") || p.Config.IncludeInput != nil && *p.Config.IncludeInput
	var faults []error
	for _, in := range inputs {
		main := strings.EqualFold(in.Name, "input") || len(inputs) == 1
		if !shows(in.Name) && (!main || !input) {
			faults = append(faults, fmt.Errorf("%s: the parameter %s has no effect, the text does not show {{$%[2]s}}", file, in.Name))
		}
	}
	return errors.Join(faults...)
}

// readTemplate reads a text in the form a template needs: without byte order mark, with \n line
// endings and none at the end. With an error it also returns what could be read.
func readTemplate(fsys fs.FS, name string) ([]node, error) {
	raw, err := fs.ReadFile(fsys, name)
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("%s: is no UTF-8 text", name)
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, fmt.Errorf("%s: is empty", name)
	}
	t, err := parse(name, strings.TrimRight(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n"))
	return t.nodes, err
}

//go:embed */prompt.txt */config.json
var embedded embed.FS

// Library is a set of prompts by name. After loading, only [Library.Reload] changes it. It is safe
// for concurrent use.
type Library struct {
	prompts atomic.Pointer[map[string]*Prompt]

	dir   string // where the prompts come from; "": they cannot change
	mu    sync.Mutex
	next  time.Time // when to look again; zero: never, see [Library.Watch]
	fault string    // of the last look
}

// Load reads the embedded prompts and overrides them with those in folder dir, one folder per
// prompt. A folder with a new name adds a prompt. An empty dir means only the embedded ones. A
// folder has the files of Teams AI:
//
//	<dir>/<name>/prompt.txt    the text, see [parse]; or skprompt.txt
//	<dir>/<name>/config.json   how to ask the model, see [Config]; optional
//	<dir>/<name>/actions.json  the actions that it offers, see [Offer]; optional
//
// Folders of Semantic Kernel's plugins have one more level. Each prompt in one is an action called
// PLUGIN-FUNCTION, and every variable of its text is a parameter:
//
//	<dir>/<plugin>/<function>/skprompt.txt
//	<dir>/<plugin>/<function>/config.json
//
// The error lists everything wrong in dir, each with its file: what cannot be read or parsed,
// fields and files without effect, links that lead out of dir. Load ignores names that begin with a
// dot, and notes (*.md). With the error it returns a library of what could be read, only to find
// more faults in, or nil if dir cannot be read at all. Do not use that library's prompts.
func Load(dir string) (*Library, error) {
	if dir == "" {
		return overEmbedded(nil)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("prompts in %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // opened to read only
	l, err := loadFS(root.FS(), dir)
	if l != nil {
		l.dir = dir
	}
	return l, err
}

// LoadFS is [Load] for a folder in a file system, such as an embedded one:
//
//	//go:embed prompts
//	var files embed.FS
//
//	library, err := prompts.LoadFS(files, "prompts")
func LoadFS(fsys fs.FS, dir string) (*Library, error) {
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	return loadFS(sub, dir)
}

func loadFS(fsys fs.FS, dir string) (*Library, error) {
	own, faults := readPrompts(fsys)
	if len(own)+len(faults) == 0 {
		faults = append(faults, errors.New("holds no folder with a prompt.txt"))
	}
	library, err := overEmbedded(own)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(faults...); err != nil {
		return library, fmt.Errorf("prompts in %s: %w", dir, err)
	}
	return library, nil
}

func overEmbedded(own map[string]*Prompt) (*Library, error) {
	all, faults := readPrompts(embedded)
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("embedded prompts: %w", err)
	}
	for _, p := range all {
		p.builtin = true
	}
	maps.Copy(all, own)
	l := &Library{}
	l.prompts.Store(&all)
	return l, nil
}

// Prompt returns the prompt of that name.
func (l *Library) Prompt(name string) (*Prompt, error) {
	p, ok := (*l.prompts.Load())[name]
	if !ok {
		return nil, fmt.Errorf("prompt %q: no such prompt, have %q", name, l.Names())
	}
	return p, nil
}

// Names returns the names of all prompts, sorted.
func (l *Library) Names() []string { return slices.Sorted(maps.Keys(*l.prompts.Load())) }

// Unused returns the names of the prompts that are neither in known nor actions (their config.json
// has no input.parameters), sorted.
func (l *Library) Unused(known ...string) []string {
	var names []string
	for name, p := range *l.prompts.Load() {
		if p.Config.Input == nil && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func readPrompts(fsys fs.FS) (found map[string]*Prompt, faults []error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, []error{err}
	}
	found = make(map[string]*Prompt)
	for _, entry := range entries {
		name := entry.Name()
		if passedOver(name) {
			continue
		}
		folders := functionsOf(fsys, name)
		if folders == nil {
			folders = []string{name}
		}
		for _, folder := range folders {
			p, err := readFolder(fsys, folder)
			if err != nil {
				faults = append(faults, err)
			}
			if p == nil {
				continue
			}
			for other := range found {
				if strings.EqualFold(other, p.Name()) { // models confuse names that differ only in case
					faults = append(faults, fmt.Errorf("%s: there is another prompt %s", folder, other))
				}
			}
			found[p.Name()] = p
		}
	}
	return found, faults
}

// functionsOf returns the folders in a plugin's folder, which has no files of a prompt; nil: it is no plugin's.
func functionsOf(fsys fs.FS, plugin string) (folders []string) {
	entries, err := fs.ReadDir(fsys, plugin)
	if err != nil {
		return nil // readFolder says so
	}
	for _, entry := range entries {
		switch {
		case passedOver(entry.Name()):
		case !entry.IsDir(), !validName.MatchString(entry.Name()):
			return nil
		default:
			folders = append(folders, path.Join(plugin, entry.Name()))
		}
	}
	return folders
}

const watchEvery = time.Second // the least time between two checks of a folder

// Watch lets [Library.Reload] detect changes in the folder of [Load]. Call it before you use the
// library.
func (l *Library) Watch() { l.next = time.Now().Add(watchEvery) }

// Reload reads the folder of a watched library again, at most once a second. If the new prompts do
// not load, it logs that once and keeps the last good ones. Call it before each turn: for any other
// library it does nothing.
func (l *Library) Reload(ctx context.Context) {
	if l.dir == "" || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	now := time.Now()
	if l.next.IsZero() || now.Before(l.next) {
		return
	}
	l.next = now.Add(watchEvery)
	fresh, err := Load(l.dir)
	if err != nil {
		if l.fault != err.Error() {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("prompts have changed and cannot be used, the last good ones stay")
		}
		l.fault = err.Error()
		return
	}
	l.fault = ""
	if !reflect.DeepEqual(l.prompts.Load(), fresh.prompts.Load()) {
		l.prompts.Store(fresh.prompts.Load())
		zerolog.Ctx(ctx).Info().Str("dir", l.dir).Msg("prompts loaded anew")
	}
}

// Builtin has the embedded prompts, one folder each. They are what [Load] begins with.
func Builtin() fs.FS { return embedded }

//go:embed prompt.schema.json
var schemaFile []byte

// schemas are the schemas of the files, by file name. A field without any effect is a fault, unless
// the schema says what happens instead.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	const name = "planbot:///prompt.schema.json" // not a file: a folder whose name has a space makes no URL
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaFile))
	c := jsonschema.NewCompiler()
	if err := cmp.Or(err, c.AddResource(name, tree)); err != nil {
		panic(err) // the file is part of the program
	}
	return map[string]*jsonschema.Schema{
		"config.json": c.MustCompile(name + "#/$defs/config"), "actions.json": c.MustCompile(name + "#/$defs/actions"),
	}
})

type configFile struct {
	Description  string  `json:"description"`
	Completion   *Config `json:"completion"`
	Augmentation struct {
		Type        string         `json:"augmentation_type"`
		DataSources map[string]int `json:"data_sources"`
	} `json:"augmentation"`
	Input struct {
		Parameters []parameter `json:"parameters"`
	} `json:"input"`
	Backends []string `json:"default_backends"`

	// Newer versions of Semantic Kernel write these in place of completion and input.
	Settings  map[string]settings `json:"execution_settings"`
	Variables []parameter         `json:"input_variables"`
}

// settings are the execution_settings for one service of Semantic Kernel.
type settings struct {
	Config
	ModelID string `json:"model_id"`
}

// parameter is a parameter of a prompt action, in either form of Semantic Kernel.
type parameter struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	DefaultValue *any   `json:"defaultValue"`
	Default      *any   `json:"default"`
	IsRequired   *bool  `json:"is_required"`
	Required     *bool  `json:"required"`
}

// input returns the parameter, which may be the only one. Semantic Kernel writes an empty default for no
// default: it fills in nothing. So only the main parameter stays required then.
func (p *parameter) input(only bool) (Input, error) {
	in := Input{Name: p.Name, Description: p.Description}
	given := cmp.Or(p.DefaultValue, p.Default)
	if p.DefaultValue != nil && p.Default != nil {
		return in, errors.New("default and defaultValue contradict each other: leave one out")
	}
	if given != nil {
		in.Default = fmt.Sprint(*given)
	}
	p.IsRequired = cmp.Or(p.IsRequired, p.Required)
	main := only || strings.EqualFold(in.Name, "input")
	switch {
	case p.IsRequired != nil:
		in.Required = *p.IsRequired
	case main:
		in.Required = in.Default == ""
	default:
		in.Required = given == nil
	}
	return in, nil
}

func readConfig(fsys fs.FS, file string) (Config, error) {
	var f configFile
	if err := readStrictly(fsys, file, &f); err != nil {
		return Config{}, err
	}
	var faults []error
	c, err := f.settings()
	if err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", file, err))
	}
	c.Description = f.Description
	c.Augmentation = f.Augmentation.Type
	c.DataSources = f.Augmentation.DataSources
	parameters := slices.Concat(f.Input.Parameters, f.Variables)
	if f.Input.Parameters != nil || f.Variables != nil {
		c.Input = []Input{}
	}
	for i := range parameters {
		in, err := parameters[i].input(len(parameters) == 1)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: %w", file, in.Name, err))
		}
		if in.Required && in.Default != "" {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: is_required and a default contradict each other: leave one out", file, in.Name))
		}
		// Models confuse names that differ only in case.
		if slices.ContainsFunc(c.Input, func(other Input) bool { return strings.EqualFold(other.Name, in.Name) }) {
			faults = append(faults, fmt.Errorf("%s: the parameter %s: the name is taken", file, in.Name))
		}
		c.Input = append(c.Input, in)
	}
	if len(f.Backends) > 0 {
		if c.Model != "" && c.Model != f.Backends[0] {
			faults = append(faults, fmt.Errorf("%s: default_backends names another model than completion.model", file))
		}
		c.Model = f.Backends[0]
	}
	return c, errors.Join(faults...)
}

// settings returns how to ask the model. Of several execution_settings it takes those called default: the others
// are for other services.
func (f *configFile) settings() (Config, error) {
	switch {
	case f.Settings == nil && f.Completion == nil:
		return Config{}, nil
	case f.Settings == nil:
		return *f.Completion, nil
	case f.Completion != nil:
		return Config{}, errors.New("completion and execution_settings contradict each other: leave one out")
	}
	chosen, ok := f.Settings["default"]
	for _, other := range f.Settings {
		if len(f.Settings) == 1 {
			chosen, ok = other, true
		}
	}
	if !ok {
		return Config{}, errors.New("execution_settings: call the settings to use default")
	}
	c := chosen.Config
	c.Model = chosen.ModelID
	return c, nil
}

func readOffers(fsys fs.FS, file string) (offers []offer, err error) {
	if err := readStrictly(fsys, file, &offers); err != nil {
		return nil, err
	}
	var faults []error
	for i, o := range offers {
		if slices.ContainsFunc(offers[:i], func(other offer) bool { return strings.EqualFold(other.Name, o.Name) }) {
			faults = append(faults, fmt.Errorf("%s: the action %s is named twice", file, o.Name))
		}
	}
	return offers, errors.Join(faults...)
}

// hints say what there is in place of fields and values of Teams AI and Semantic Kernel without effect here.
var hints = map[string]string{
	"data_sources":              "search with augmentation.data_sources and a knowledge base",
	"response_format":           "a plan has its own; to get JSON from an action, ask for it in the text",
	"function_choice_behavior":  "a prompt calls no functions; the planner tools does, with tool_choice",
	"chat_system_prompt":        "write it into the text",
	"number_of_responses":       "there is one answer",
	"results_per_prompt":        "there is one answer",
	"must be 'semantic-kernel'": "write handlebars and liquid templates in Semantic Kernel's own language: {{$name}} and {{function}}",
	"must be 'chat'":            "models of chats are asked; leave it out",
	"'none', 'monologue'":       "default means none in Teams AI; leave it out in the prompt of a planner",
}

// hintOf is what to do about a fault, behind a colon; "": the fault says all.
func hintOf(fault string) string {
	for what, hint := range hints {
		if hint != "" && strings.Contains(fault, what) {
			return ": " + hint
		}
	}
	return ""
}

// readStrictly reads JSON that must match its schema. The error lists every fault.
func readStrictly(fsys fs.FS, file string, into any) error {
	raw, err := fs.ReadFile(fsys, file)
	if err != nil {
		return err
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if err := json.Unmarshal(raw, new(jsontext.Value)); err != nil {
		return fmt.Errorf("%s: is no JSON: %w", file, err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schemas()[path.Base(file)].Validate(tree)
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		var lines []string
		for line := range strings.Lines(wrong.Error()) { // "- at '/a/b': fault", set in below one that only says "validation failed"
			place, fault, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- at '"), "': ")
			if !found || fault == "validation failed" {
				continue
			}
			if place != "" {
				place = strings.ReplaceAll(place[1:], "/", ".") + ": "
			}
			lines = append(lines, file+": "+place+fault+hintOf(fault))
		}
		slices.Sort(lines)
		return errors.New(strings.Join(lines, "\n"))
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
