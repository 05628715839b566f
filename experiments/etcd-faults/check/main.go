// Command check tells whether a history of registers is linearizable: go run . HISTORY [PAGE.html]
//
// HISTORY is what register.py prints. The checker is porcupine (Athalye, 2017, after Wing and Gong, and Lowe). Exit
// code 0 if the history is linearizable, 1 if it is not, 2 if it cannot be read or takes too long to tell.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	Client int
	Key    string
	Op     string
	Old    string
	Value  string
	Output string
	Done   bool
	From   int64
	To     *int64
}

// register is a register that is empty at first. An operation that nobody has answered may have any outcome.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(line).Key
			keys[key] = append(keys[key], op)
		}
		var all [][]porcupine.Operation
		for _, ops := range keys {
			all = append(all, ops)
		}
		return all
	},
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		held, op := state.(string), input.(line)
		switch op.Op {
		case "read":
			return op.Output == held, held
		case "write":
			return true, op.Value
		}
		applies := held == op.Old
		if applies {
			held = op.Value
		}
		return op.To == nil || applies == op.Done, held
	},
	DescribeOperation: func(input, output interface{}) string {
		op := input.(line)
		switch op.Op {
		case "read":
			return fmt.Sprintf("read %q", op.Output)
		case "write":
			return fmt.Sprintf("write %q", op.Value)
		}
		return fmt.Sprintf("%q to %q: %v", op.Old, op.Value, op.Done)
	},
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue
		}
		var op line
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		end, client := int64(math.MaxInt64), op.Client
		if op.To != nil {
			end = *op.To
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: op, Call: op.From, Output: nil, Return: end})
	}
	if len(history) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("%s: there is no history in it", path)
	}
	return history, lines.Err()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check HISTORY [PAGE.html]")
		os.Exit(2)
	}
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	result, info := porcupine.CheckOperationsVerbose(register, history, 2*time.Minute)
	if len(os.Args) > 2 {
		if err := porcupine.VisualizePath(register, info, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "check:", err)
			os.Exit(2)
		}
	}
	unknown := 0
	for _, op := range history {
		if op.Return == math.MaxInt64 {
			unknown++
		}
	}
	fmt.Printf("%d operations, %d of them without an answer\n", len(history), unknown)
	switch result {
	case porcupine.Ok:
		fmt.Println("linearizable")
	case porcupine.Illegal:
		fmt.Println("NOT linearizable")
		os.Exit(1)
	default:
		fmt.Println("not known: it takes more than two minutes to tell")
		os.Exit(2)
	}
}
