import { type Command, InvalidArgumentError } from 'commander'
import { hubLeaf } from '../command.ts'
import { collectText } from '../values.ts'

export interface McpOptions {
  readonly toolset: 'hub'
  readonly hubId?: string
  readonly home?: string
  readonly peer?: readonly string[]
  readonly listen?: readonly string[]
}

/** `nfltr mcp` — the MCP server on standard input and output that Claude Code starts. */
export function mcp(serve: (options: McpOptions) => Promise<void>): Command {
  return hubLeaf('mcp', 'serve the MCP tools on standard input and output')
    .requiredOption('--toolset <name>', 'which tools: hub', toolset)
    .option('--peer <multiaddr>', 'a member the hub dials; may be repeated', collectText)
    .option('--listen <multiaddr>', 'an address the hub listens on; may be repeated', collectText)
    .addHelpText('after', '\nExample:\n  $ claude mcp add nfltr -- nfltr mcp --toolset hub')
    .action(async (_options: unknown, command: Command) => {
      await serve(command.optsWithGlobals())
    })
}

function toolset(text: string): 'hub' {
  if (text !== 'hub') throw new InvalidArgumentError('Toolsets: hub.')
  return text
}
