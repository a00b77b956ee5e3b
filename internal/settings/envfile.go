package settings

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-envparse"
)

// maxEnvFile limits the size of such a file.
const maxEnvFile = 64 << 10

// notInFiles are the settings that decide whose tokens count. A file that lies beside a program must
// not switch authentication off.
var notInFiles = []string{"BOT_DANGEROUSLY_NO_AUTH", "BOT_OPENID_METADATA_URL", "BOT_LOGIN_URL"}

// ofTeams are the names that Microsoft's command line for Teams writes, and the settings that they are.
var ofTeams = map[string]string{
	"CLIENT_ID": "MICROSOFT_APP_ID", "CLIENT_SECRET": "MICROSOFT_APP_PASSWORD", "TENANT_ID": "MICROSOFT_APP_TENANT_ID",
}

// ReadEnvFile reads settings from a file with lines NAME=value. They count for what neither a flag nor
// the environment sets. Call it before [Settings.Load].
func (s *Settings) ReadEnvFile(path string) error {
	file, err := os.Open(path) //nolint:gosec // a file that the operator names
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err != nil {
		return err
	}
	if len(raw) > maxEnvFile {
		return fmt.Errorf("read %s: has more than %d bytes", path, maxEnvFile)
	}
	values, err := envparse.Parse(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	s.EnvFile = path
	for _, name := range notInFiles {
		if strings.TrimSpace(values[name]) != "" {
			s.faults.add(name, "counts only from a flag or the environment, not from %s", path)
		}
		delete(values, name)
	}
	id := cmp.Or(s.texts["MICROSOFT_APP_ID"], fromEnvironment([]string{"MICROSOFT_APP_ID", "MicrosoftAppId"}))
	for name, variable := range ofTeams {
		if values[variable] == "" && (id == "" || id == values["CLIENT_ID"]) { // or else they are those of another app
			values[variable] = values[name]
		}
	}
	s.inFile = values
	return nil
}

// lookUp returns what the environment sets one of the variables to, or else the file.
func (s *Settings) lookUp(variables []string) string {
	if value := fromEnvironment(variables); value != "" {
		return value
	}
	for _, name := range variables {
		if value := strings.TrimSpace(s.inFile[name]); value != "" {
			return value
		}
	}
	return ""
}

// entries are those of the environment and of the file.
func (s *Settings) entries() []string {
	all := slices.Clone(os.Environ())
	for name, value := range s.inFile {
		all = append(all, name+"="+value)
	}
	return all
}
