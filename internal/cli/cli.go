// Package cli runs the command lines of programs that have a bot's settings: it parses them,
// logs as the settings say, and tells what went wrong.
package cli

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Exit codes: 1 for what failed, 2 for wrong use and wrong settings.
const (
	ExitFailed = 1
	ExitUsage  = 2
)

// Streams are where a command reads and writes.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// Usage makes an error a mistake of whoever typed the command or set it up.
func Usage(err error) error { return settings.Fault{Err: err} }

// SilentError ends the command with a code when all is said already.
type SilentError struct{ Code int }

func (e SilentError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Main runs the process's command line until it is told to stop, and exits.
func Main(run func(ctx context.Context, args []string, std *Streams) (code int)) {
	cobra.MousetrapHelpText = "" // a double click in Windows starts the program, too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process at once
	code := run(ctx, os.Args[1:], &Streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// Run runs one command line and returns the exit code.
func (p Program) Run(ctx context.Context, args []string, std *Streams) int {
	err := p.run(ctx, args, std)
	format := p.Settings.LogFormat
	if format == "" { // maybe the command line could not be parsed, so that nothing is set yet
		_, flag, _ := strings.Cut(strings.Join(args, "="), "--bot-log-format=")
		format, _, _ = strings.Cut(cmp.Or(flag, os.Getenv("BOT_LOG_FORMAT")), "=")
	}
	return report(p.Name, std.Err, strings.EqualFold(strings.TrimSpace(format), "json"), err)
}

// report prints the error, one mistake a line or as a JSON object where logs are JSON, and
// returns the exit code.
func report(name string, w io.Writer, asJSON bool, err error) int {
	if err == nil {
		return 0
	}
	if silent, ok := errors.AsType[SilentError](err); ok {
		return silent.Code
	}
	code, lines := ExitFailed, []string{err.Error()}
	if _, fault := errors.AsType[settings.Fault](err); fault {
		code, lines = ExitUsage, settings.Lines(err)
	}
	if asJSON {
		log := zerolog.New(w).With().Timestamp().Logger()
		log.Error().Strs("mistakes", lines).Msg(name + " failed")
		return code
	}
	fmt.Fprintf(w, "%s: %s\n", name, strings.Join(lines, "\n"))
	return code
}

// Check is the mistakes in the settings, and more, for a command that cannot live with them.
func Check(s *settings.Settings, more ...error) error {
	lines := settings.Lines(errors.Join(append([]error{s.Check()}, more...)...))
	if len(lines) == 0 {
		return nil
	}
	lines = append(lines, s.Typos()...)
	return Usage(errors.New("these settings have to be changed:\n" + strings.Join(lines, "\n")))
}

// ShellWord quotes a path for a shell if it has to be.
func ShellWord(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return strings.ContainsRune(" \t'\"\\$&|;<>()*?[]#~`!", r) }) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// Logger writes to w as the settings say: for people on a terminal, else JSON. The level counts
// where they name none.
func Logger(w io.Writer, s *settings.Settings, level zerolog.Level, copies ...io.Writer) zerolog.Logger {
	if !JSONLog(w, s) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !IsTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	if len(copies) > 0 {
		w = zerolog.MultiLevelWriter(append([]io.Writer{w}, copies...)...)
	}
	if set, err := zerolog.ParseLevel(s.LogLevel); err == nil && s.LogLevel != "" {
		level = set
	}
	with := zerolog.New(w).Level(level).With().Timestamp()
	if s.NoAuth {
		with = with.Bool("no_auth", true)
	}
	return with.Logger()
}

// JSONLog reports whether every line has to be a JSON object.
func JSONLog(w io.Writer, s *settings.Settings) bool {
	return s.LogFormat == "json" || s.LogFormat == "" && !IsTerminal(w)
}

// IsTerminal reports whether somebody sees what is written, behind a writer that has an
// Unwrap as well.
func IsTerminal(w io.Writer) bool {
	if wrapped, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = wrapped.Unwrap()
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// PrintJSON writes a value as JSON that people can read.
func PrintJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Printable is a text from outside without what a terminal obeys.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// OneLine is a text from outside in one line, without what a terminal obeys.
func OneLine(text string) string { return Printable(strings.Join(strings.Fields(text), " ")) }

// PrintFields prints a table of names and values, leaving out what is empty.
func PrintFields(out io.Writer, rows [][2]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", row[0], OneLine(row[1]))
		}
	}
	return table.Flush()
}

// Runner is a command: a struct whose exported fields are its flags and arguments. Their tags are:
//
//	arg          the field is an argument, and not a flag; a list takes all that are left
//	optional     the argument may be missing
//	required     the flag may not
//	name, short  of the flag; without a name it is the field's, in small letters
//	help         what it is for
//	placeholder  what help calls its value
//	default      its value when nobody gives one
//	sep:"none"   a value of the list may have commas
//	type:"path"  ~/ is the person's folder, and a path is made absolute
//
// The others are those of [settings.Parse]. The fields of an embedded struct belong to the command.
type Runner interface {
	Run(ctx context.Context, s *settings.Settings, std *Streams) error
}

// Program is a command line. Commands is a pointer to a struct with a field for each command: its
// name is the field's in small letters, and its tag help says what it does. A field that is no Runner
// has commands in its turn. The one with the tag default runs when no other is named.
type Program struct {
	Name, About string
	Commands    any
	More        []any // more such structs. nil: there are none
	// Adapt makes a Runner of a command of another kind, whose fields are its flags and arguments all the
	// same; nil: it is no command. nil: there is no other kind.
	Adapt    func(command any) Runner
	Settings *settings.Settings // that every command has as flags, and gets
	Before   func() error       // runs once they are read, before the command. nil: nothing does
}

// commandLine is a Program at work.
type commandLine struct {
	Program
	std     *Streams
	flags   *pflag.FlagSet // of the settings
	all     bool           // help is to list all of them
	envFile string         // with settings
	running bool           // the command line is right

	names map[*cobra.Command][]string // of what they have, in the order of the structs
}

func (p Program) run(ctx context.Context, args []string, std *Streams) error {
	l := &commandLine{Program: p, std: std, flags: pflag.NewFlagSet(p.Name, pflag.ContinueOnError), names: map[*cobra.Command][]string{}}
	l.flags.SortFlags = false
	p.Settings.AddFlags(l.flags)
	root := &cobra.Command{Use: p.Name, Short: p.About, SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().AddFlagSet(l.flags)
	root.PersistentFlags().BoolVar(&l.all, "help-all", false, "help with all settings")
	root.PersistentFlags().StringVar(&l.envFile, "env-file", "", "file with settings, as lines NAME=value; the environment wins")
	root.SetHelpFunc(l.help)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	l.add(root, p.Commands)
	for _, more := range p.More {
		l.add(root, more)
	}
	l.addCompletion(root)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // it is there
	help.Args = func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil || len(rest) == 0 {
			return err
		}
		return l.arguments(nil)(cmd, rest)
	}
	err := root.ExecuteContext(ctx)
	if err != nil && !l.running {
		return Usage(err)
	}
	return err
}

// add makes the commands of a struct's fields those of parent.
func (l *commandLine) add(parent *cobra.Command, commands any) {
	if parent.RunE == nil {
		parent.Args = l.arguments(nil)
		parent.RunE = func(*cobra.Command, []string) error {
			return fmt.Errorf("expected one of %s", strings.Join(l.names[parent], ", "))
		}
	}
	of := reflect.ValueOf(commands)
	if of.Kind() != reflect.Pointer || of.Elem().Kind() != reflect.Struct {
		l.Settings.Fault(fmt.Errorf("commands of %s: %T is no command, and no pointer to a struct of commands", parent.CommandPath(), commands))
		return
	}
	for field, value := range of.Elem().Fields() {
		if !field.IsExported() {
			l.Settings.Fault(fmt.Errorf("commands of %s: %s is not exported", parent.CommandPath(), field.Name))
			continue
		}
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
		cmd := l.command(parent, name, field.Tag.Get("help"))
		command := value.Addr().Interface()
		run, ok := command.(Runner)
		if !ok && l.Adapt != nil {
			run = l.Adapt(command)
		}
		if run == nil {
			l.add(cmd, command)
			continue
		}
		if cmd.RunE != nil {
			l.Settings.Fault(fmt.Errorf("commands: there are two %s", cmd.CommandPath()))
			continue
		}
		if more, ok := command.(interface{ Help() string }); ok {
			cmd.Long = cmd.Short + "\n\n" + more.Help()
		}
		l.bind(cmd, command, run)
		if _, ok := field.Tag.Lookup("default"); ok {
			l.bind(parent, command, run)
		}
	}
}

// command returns the one of parent with that name: a struct may add to the commands of an earlier one.
func (l *commandLine) command(parent *cobra.Command, name, help string) *cobra.Command {
	for _, cmd := range parent.Commands() {
		if cmd.Name() == name {
			return cmd
		}
	}
	cmd := &cobra.Command{Use: name, Short: help}
	parent.AddCommand(cmd)
	l.names[parent] = append(l.names[parent], name)
	return cmd
}

func (l *commandLine) bind(cmd *cobra.Command, command any, run Runner) {
	var arguments []*field
	cmd.Flags().SortFlags = false
	fields, err := fieldsOf(reflect.ValueOf(command).Elem())
	if err != nil {
		l.Settings.Fault(fmt.Errorf("command %s: %w", cmd.CommandPath(), err))
	}
	for _, f := range fields {
		if _, ok := f.tag.Lookup("arg"); ok {
			arguments = append(arguments, f)
			continue
		}
		if l.flags.Lookup(f.name) != nil || cmd.Flags().Lookup(f.name) != nil || slices.Contains([]string{"help", "help-all", "env-file"}, f.name) {
			l.Settings.Fault(fmt.Errorf("command %s: the flag --%s is taken", cmd.CommandPath(), f.name))
			continue
		}
		flag := cmd.Flags().VarPF(f, f.name, f.tag.Get("short"), f.tag.Get("help"))
		if f.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
		if _, ok := f.tag.Lookup("required"); ok {
			_ = cmd.MarkFlagRequired(f.name) // fails only for a flag that does not exist
		}
	}
	cmd.Args = l.arguments(arguments)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l.running = true
		if err := l.readEnvFile(command); err != nil {
			return Usage(fmt.Errorf("--env-file: %w", err))
		}
		l.Settings.Load()
		if l.Before != nil {
			if err := l.Before(); err != nil {
				return err
			}
		}
		return run.Run(cmd.Context(), l.Settings, l.std)
	}
	var words []string
	for _, f := range arguments {
		words = append(words, f.words())
		cmd.Long = cmp.Or(cmd.Long, cmd.Short) + "\n\n" + f.words() + ": " + f.tag.Get("help")
	}
	cmd.Use = strings.Join(append([]string{cmd.Name()}, words...), " ")
}

// readEnvFile reads the file that --env-file names, or the one that the command reads if it is there.
func (l *commandLine) readEnvFile(command any) error {
	if l.envFile != "" {
		return l.Settings.ReadEnvFile(l.envFile)
	}
	usual, ok := command.(interface{ EnvFile() string })
	if !ok {
		return nil
	}
	err := l.Settings.ReadEnvFile(usual.EnvFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// arguments returns what sets these fields to the arguments of a command.
func (l *commandLine) arguments(fields []*field) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if l.all {
			return pflag.ErrHelp
		}
		for _, f := range fields {
			take := min(1, len(args))
			if f.value.Kind() == reflect.Slice {
				take = len(args)
			}
			if _, optional := f.tag.Lookup("optional"); take == 0 && !optional {
				return fmt.Errorf("expected %s", f.words())
			}
			for _, arg := range args[:take] {
				if err := f.Set(arg); err != nil {
					return fmt.Errorf("%s: %w", f.words(), err)
				}
			}
			args = args[take:]
		}
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		return meant(fmt.Errorf("unexpected argument %s", spelling.Clip(args[0])), args[0], "", names)
	}
}

// wrongFlag says what is wrong with a flag, and which one was meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return meant(fmt.Errorf("unknown flag --%s", spelling.Clip(unknown.GetSpecifiedName())), unknown.GetSpecifiedName(), "--", names)
}

// meant adds the nearest of the names to the error about a word.
func meant(err error, word, dashes string, names []string) error {
	name := spelling.Meant(word, names)
	begun := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, word) })
	switch {
	case name != "":
	case begun >= 0 && word != "":
		name = names[begun]
	default:
		return err
	}
	return fmt.Errorf("%w, did you mean %q?", err, dashes+name)
}

// addCompletion adds the command that prints scripts for shells, with the name of the program.
func (l *commandLine) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args = l.arguments(nil)
		cmd.RunE = func(*cobra.Command, []string) error { return errors.New("expected bash, zsh, fish or powershell") }
		cmd.PersistentFlags().StringVar(&root.Use, "name", root.Name(), "name that the program has on your PATH")
		cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
			if !programName.MatchString(root.Use) {
				return errors.New("--name: a name has only letters, digits, dots, hyphens and underscores")
			}
			return nil
		}
	}
}

// programName is what may stand in a script.
var programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// help prints what a command is for, and its flags. Of the settings it shows the common ones, or
// with --help-all every one; with the program itself there is no room for the common ones.
func (l *commandLine) help(cmd *cobra.Command, _ []string) {
	width := 100
	if f, ok := l.std.Out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = max(columns, 40)
		}
	}
	out := l.std.Out
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n", wrap(cmp.Or(cmd.Long, cmd.Short), width), cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "  %s COMMAND [flags]\n", cmd.CommandPath())
		fmt.Fprintln(out, "\nCommands:")
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(table, "  %s\t%s\n", child.Name(), child.Short)
			}
		}
		_ = table.Flush()
	}
	own, common := pflag.NewFlagSet("own", pflag.ContinueOnError), pflag.NewFlagSet("common", pflag.ContinueOnError)
	own.SortFlags, common.SortFlags = false, false
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags() // so that cmd.Flags has those of its parents
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if l.flags.Lookup(flag.Name) == nil {
			own.AddFlag(flag)
		}
	})
	total := 0
	l.flags.VisitAll(func(flag *pflag.Flag) {
		total++
		_, isCommon := flag.Annotations[settings.Common]
		if l.all || isCommon && cmd.HasParent() {
			common.AddFlag(flag)
		}
	})
	fmt.Fprintln(out, "\nFlags:")
	fmt.Fprint(out, own.FlagUsagesWrapped(width))
	if common.HasFlags() {
		fmt.Fprintln(out, "\nSettings, also from the environment:")
		fmt.Fprint(out, common.FlagUsagesWrapped(width))
	}
	if !l.all {
		fmt.Fprintf(out, "\n%s --help-all lists all %d settings; docs/settings.md has the same list.\n", cmd.CommandPath(), total)
	}
}

// wrap breaks lines that are longer than the width, where there is a space.
func wrap(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		var short []string
		for len(line) > width {
			space := strings.LastIndexByte(line[:width+1], ' ')
			if space <= 0 {
				break
			}
			short = append(short, line[:space])
			line = line[space+1:]
		}
		lines[i] = strings.Join(append(short, line), "\n")
	}
	return strings.Join(lines, "\n")
}

// field is a field of a command, as a flag or an argument.
type field struct {
	name  string
	tag   reflect.StructTag
	value reflect.Value
	given bool
}

// fieldsOf are the fields of a command, set to their defaults.
func fieldsOf(command reflect.Value) (all []*field, faults error) {
	for f, value := range command.Fields() {
		switch {
		case f.Anonymous:
			embedded, err := fieldsOf(value)
			all, faults = append(all, embedded...), errors.Join(faults, err)
		case f.IsExported():
			one := &field{name: cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)), tag: f.Tag, value: value}
			if text := f.Tag.Get("default"); text != "" {
				if err := one.parse(text, value); err != nil {
					faults = errors.Join(faults, fmt.Errorf("the default of --%s: %w", one.name, err))
				}
			}
			all = append(all, one)
		}
	}
	return all, faults
}

// words is what help calls an argument.
func (f *field) words() string {
	word := cmp.Or(f.tag.Get("placeholder"), strings.ToUpper(f.name))
	if f.value.Kind() == reflect.Slice {
		word += "..."
	}
	if _, ok := f.tag.Lookup("optional"); ok {
		return "[" + word + "]"
	}
	return word
}

func (f *field) Type() string {
	return cmp.Or(f.tag.Get("placeholder"), settings.TypeName(f.value.Type()))
}

func (f *field) String() string {
	if f == nil { // as pflag makes one to know what is no default
		return ""
	}
	return f.tag.Get("default")
}

func (f *field) Set(text string) error {
	value := reflect.New(f.value.Type()).Elem()
	if err := f.parse(text, value); err != nil {
		return err
	}
	if f.given && f.value.Kind() == reflect.Slice {
		value = reflect.AppendSlice(f.value, value)
	}
	f.given = true
	f.value.Set(value)
	return nil
}

func (f *field) parse(text string, into reflect.Value) (err error) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	switch into := into.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return into.UnmarshalText([]byte(text))
	case *int:
		if *into, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		return nil
	case *float64:
		if *into, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		return nil
	case *[]string:
		_, argument := f.tag.Lookup("arg")
		if argument || f.tag.Get("sep") == "none" {
			*into = []string{text}
			return nil
		}
	}
	if f.tag.Get("type") == "path" && text != "-" {
		text, err = absolute(text)
	}
	return errors.Join(err, settings.Parse(text, f.tag, into))
}

// absolute returns the path from the root, also of one that a shell did not expand.
func absolute(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	return filepath.Abs(path)
}
