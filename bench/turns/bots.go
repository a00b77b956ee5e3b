package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bot is one that is measured, as the file of -bots has it.
type bot struct {
	Name string            `json:"name"`
	Dir  string            `json:"dir"` // "": here
	Cmd  []string          `json:"cmd"`
	Env  map[string]string `json:"env"`
}

// lineUp builds the bots of this module and reads those of the file.
func (r *rig) lineUp(ctx context.Context) ([]bot, error) {
	all := []bot{{Name: "planbot"}, {Name: "floor"}}
	if r.options.bots != "" {
		more, err := readBots(r.options.bots)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	all = slices.DeleteFunc(all, func(b bot) bool { return len(r.only) > 0 && !slices.Contains(r.only, b.Name) })
	if len(all) == 0 {
		return nil, fmt.Errorf("-only: there is no bot named %s", strings.Join(r.only, ", "))
	}
	packages := map[string]string{"planbot": "cmd/bot", "floor": "bench/floor"}
	for i := range all {
		if all[i].Cmd != nil {
			continue
		}
		binary, err := r.build(ctx, all[i].Name, packages[all[i].Name])
		if err != nil {
			return nil, err
		}
		all[i].Cmd = []string{binary}
	}
	return all, nil
}

func readBots(file string) ([]bot, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("bots: %w", err)
	}
	var all []bot
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("bots of %s: %w", file, err)
	}
	for _, b := range all {
		if b.Name == "" || len(b.Cmd) == 0 {
			return nil, fmt.Errorf("bots of %s: each needs a name and a cmd", file)
		}
	}
	return all, nil
}

// module is the module that this program belongs to.
const module = "github.com/planbot-go/planbot/"

// build is go build of a package, with a profiler in it if profiles are asked for.
func (r *rig) build(ctx context.Context, name, folder string) (string, error) {
	binary := filepath.Join(r.dir, name)
	args := []string{"build", "-o", binary}
	if r.profile {
		overlay, err := r.overlayProfiler(ctx, name, folder)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, module+folder)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return binary, nil
}

// environment is what a bot is told. What the caller has set besides stays, but
// for what would make the bot call somebody else.
func (r *rig) environment(b bot, port int) []string {
	env := []string{
		"PORT=" + strconv.Itoa(port), "BOT_ADDR=", "MICROSOFT_APP_ID=", "AZURE_OPENAI_ENDPOINT=", "BOT_FALLBACK_MODELS=",
		"OPENAI_BASE_URL=" + r.model.url, "OPENAI_API_KEY=bench", "OPENAI_MODEL=bench",
		"REDIS_URL=" + r.redis.url(),
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		env = append(env, name+"="+b.Env[name])
	}
	return env
}

// fleet is the running processes of one bot.
type fleet struct{ replicas []*replica }

// replica is one of them, through its restarts.
type replica struct {
	process *process
	program program
	port    int
	before  time.Duration // CPU time of the processes before this one
	peak    float64       // MiB, of those
}

// start starts the replicas and waits until they listen. The fleet has to be
// stopped also when there was an error.
func (r *rig) start(ctx context.Context, b bot, replicas int) (*fleet, error) {
	f := &fleet{}
	for i := range replicas {
		port, err := freePort(ctx)
		if err != nil {
			return f, err
		}
		one := &replica{port: port, program: program{
			args: b.Cmd, dir: b.Dir, env: r.environment(b, port), core: r.cores.of(i),
			log: r.path(fmt.Sprintf("%s-%d.log", b.Name, i+1)),
		}}
		if one.process, err = startProcess(ctx, one.program); err != nil {
			return f, err
		}
		f.replicas = append(f.replicas, one)
	}
	for _, one := range f.replicas {
		if err := one.process.listens(ctx, one.port); err != nil {
			return f, err
		}
	}
	return f, nil
}

// stop ends all processes, side by side.
func (f *fleet) stop() {
	for _, one := range f.replicas {
		one.process.end()
	}
	for _, one := range f.replicas {
		one.process.stop()
	}
}

// restart ends each process and starts it anew before it goes on to the next.
func (f *fleet) restart(ctx context.Context) error {
	for _, one := range f.replicas {
		if err := one.restart(ctx); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
	}
	return nil
}

func (r *replica) restart(ctx context.Context) (err error) {
	r.peak = max(r.peak, treePeakMiB(r.process.pid()))
	r.process.stop()
	r.before += r.process.cpuSpent()
	if r.process, err = startProcess(ctx, r.program); err != nil {
		return err
	}
	return r.process.listens(ctx, r.port)
}

func (f *fleet) urls() []string {
	var all []string
	for _, one := range f.replicas {
		all = append(all, "http://"+address(one.port)+"/api/messages")
	}
	return all
}

func (f *fleet) cpu() (sum time.Duration) {
	for _, one := range f.replicas {
		sum += one.before + treeCPU(one.process.pid())
	}
	return sum
}

// peakMiB is the peak of the largest replica.
func (f *fleet) peakMiB() (peak float64) {
	for _, one := range f.replicas {
		peak = max(peak, one.peak, treePeakMiB(one.process.pid()))
	}
	return peak
}

// alive is an error when a process has ended by itself.
func (f *fleet) alive() error {
	var errs []error
	for _, one := range f.replicas {
		errs = append(errs, one.process.died())
	}
	return errors.Join(errs...)
}
