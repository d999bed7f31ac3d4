import { Command } from 'commander'

/**
 * A leaf command with the flags that every command has. They are also accepted before the noun; `optsWithGlobals` unites
 * both places.
 */
export function leaf(name: string, summary: string): Command {
  return new Command(name)
    .summary(summary)
    .description(summary)
    .option('--json', 'print one JSON document, or JSON lines for a stream')
    .option('--home <dir>', "where this machine's state, config and sockets live")
    .showSuggestionAfterError(true)
}

/** A leaf command of a hub: which project it is about. */
export function hubLeaf(name: string, summary: string): Command {
  return leaf(name, summary).option('--hub-id <id>', "the project's hub; default: from the project's folder")
}

/** A noun with its verbs; the plural works too. */
export function noun(name: string, summary: string, verbs: readonly Command[]): Command {
  const command = new Command(name)
    .alias(name.endsWith('sh') ? `${name}es` : `${name}s`)
    .summary(summary)
    .description(summary)
    .showSuggestionAfterError(true)
  for (const verb of verbs) command.addCommand(verb)
  return command
}
