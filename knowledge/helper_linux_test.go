package knowledge_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planbot-go/planbot/knowledge"
)

// TestMemoryLeft: of all groups around the process the one that has least left counts.
func TestMemoryLeft(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	root := t.TempDir()
	for name, text := range map[string]string{
		"pod/memory.max": "536870912\n", "pod/memory.current": "268435456\n", "pod/memory.stat": "anon 1\ninactive_file 67108864\n",
		"pod/c/memory.max": "max\n", "pod/c/memory.current": "1\n",
		"full/memory.max": "104857600\n", "full/memory.current": "104857600\n",
		"memory/old/memory.limit_in_bytes": "268435456\n", "memory/old/memory.usage_in_bytes": "134217728\n", "memory/old/memory.stat": "total_inactive_file 0\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]int64{
		"0::/pod/c\n": 512*mib - 192*mib - 32*mib,
		"0::/full\n":  0,
		"0::/\n":      -1,
		"":            -1,
		"5:cpu,memory:/old\n1:name=systemd:/old\n": 256*mib - 128*mib - 32*mib,
	} {
		left, limited := knowledge.MemoryLeftIn(root, groups)
		if !limited {
			left = -1
		}
		if left != want {
			t.Errorf("%q: %d, want %d", groups, left, want)
		}
	}
}
