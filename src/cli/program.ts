import { Command, CommanderError, type OutputConfiguration } from 'commander'
import { NfltrError } from '../core/errors.ts'
import { noun } from './command.ts'
import { agentList } from './commands/agent-list.ts'
import { agentLogs } from './commands/agent-logs.ts'
import { agentReceipt } from './commands/agent-receipt.ts'
import { agentResult } from './commands/agent-result.ts'
import { agentSend } from './commands/agent-send.ts'
import { agentShow } from './commands/agent-show.ts'
import { agentSpawn } from './commands/agent-spawn.ts'
import { agentStop } from './commands/agent-stop.ts'
import { agentWait } from './commands/agent-wait.ts'
import { audit } from './commands/audit.ts'
import { configAddApiKey, configAddCredential, configGet, configList, configSet } from './commands/config.ts'
import { demo } from './commands/demo.ts'
import { doctor } from './commands/doctor.ts'
import { hubServe, hubStatus, hubStop } from './commands/hub.ts'
import { mcp } from './commands/mcp.ts'
import {
  meshApprove,
  meshCreate,
  meshDeny,
  meshInvite,
  meshJoin,
  meshMembers,
  meshPending,
  meshPromote,
  meshRenew,
  meshRevoke,
  meshServe,
  meshShow,
} from './commands/mesh.ts'
import { meshKey } from './commands/mesh-key.ts'
import { nodeJoin, nodeLeave, nodeStatus } from './commands/node.ts'
import { hubBackup, hubRepair, hubRestore, nodeRepair } from './commands/store.ts'
import { uninstall } from './commands/uninstall.ts'
import type { World } from './world.ts'

/**
 * The whole command tree over one world. Building it costs nothing: the world loads what a command needs when it runs.
 *
 * @param print where help and the version go
 */
export function buildProgram(world: World, print?: (text: string) => void): Command {
  const program = new Command('nfltr')
    .description('Starts Claude Code agents on other machines of your mesh and brings each result back exactly once.')
    .version(world.version, '--version', 'print the version')
    .option('--json', 'print one JSON document, or JSON lines for a stream')
    .option('--home <dir>', "where this machine's state, config and sockets live; also NFLTR_HOME")
    .showSuggestionAfterError(true)
    .addHelpText(
      'after',
      '\nStart here:\n  $ nfltr demo            the main job on this machine alone\n  $ nfltr mesh create     then: nfltr mesh invite',
    )
  const { mesh, node, hub, stores, agents, config } = world
  program.addCommand(
    noun('mesh', 'the machines that trust each other', [
      meshCreate(mesh),
      meshShow(mesh),
      meshInvite(mesh),
      meshJoin(mesh),
      meshMembers(mesh),
      meshPending(mesh),
      meshApprove(mesh),
      meshDeny(mesh),
      meshRevoke(mesh),
      meshRenew(mesh),
      meshPromote(mesh),
      meshKey(mesh),
      meshServe(mesh),
    ]),
  )
  program.addCommand(
    noun('node', 'this machine as a place for agents', [
      nodeJoin(node),
      nodeStatus(node),
      nodeLeave(node),
      nodeRepair(stores),
    ]),
  )
  program.addCommand(mcp(world.mcp))
  program.addCommand(
    noun('hub', 'the process that keeps a project’s agents and results', [
      hubStatus(hub),
      hubServe(hub),
      hubStop(hub),
      hubBackup(stores),
      hubRestore(stores),
      hubRepair(stores),
    ]),
  )
  program.addCommand(
    noun('agent', 'the hub’s tools from a shell', [
      agentSpawn(agents),
      agentWait(agents),
      agentResult(agents),
      agentSend(agents),
      agentStop(agents),
      agentList(agents),
      agentShow(agents),
      agentLogs(agents),
      agentReceipt(agents),
    ]),
  )
  program.addCommand(
    noun('config', 'settings and credentials of this machine', [
      configGet(config),
      configSet(config),
      configList(config),
      configAddCredential(config),
      configAddApiKey(config),
    ]),
  )
  program.addCommand(audit(world.audit))
  program.addCommand(doctor(world.doctor))
  program.addCommand(uninstall(world.uninstall))
  program.addCommand(demo(world.demo))
  throwInsteadOfExit(program, print === undefined ? {} : { writeOut: print })
  program.hook('preAction', assertNothingEmpty)
  return program
}

/** An empty word is a variable of a script that was not set: it is refused before it can mean "none" or "all" to anybody. */
function assertNothingEmpty(program: Command, command: Command): void {
  const given = (one: Command) =>
    one.options.map((option) => ({
      name: option.long ?? option.flags,
      value: one.getOptionValue(option.attributeName()) as unknown,
    }))
  const words = command.registeredArguments.map((argument, index) => ({
    name: argument.name(),
    value: command.processedArgs[index] as unknown,
  }))
  for (const { name, value } of [...words, ...given(command), ...given(program)]) {
    if (value !== '' && !(Array.isArray(value) && value.includes(''))) continue
    throw new NfltrError('invalid_argument', `${name} was empty.`, {
      hint: 'Give it a value, or leave it out where it need not be given.',
      details: { argument: name },
    })
  }
}

function throwInsteadOfExit(command: Command, output: OutputConfiguration): void {
  command.exitOverride()
  // Errors are printed by `main`, in one form for all of them.
  command.configureOutput({ ...output, outputError: () => undefined })
  for (const child of command.commands) throwInsteadOfExit(child, output)
}

/**
 * What the parser threw, as a refusal of ours; `undefined` where it has said everything itself: help and version.
 *
 * @param options - `isJson`: a program reads the answer, and the help that people get in place of a command says nothing to it
 */
export function usageError(
  thrown: CommanderError,
  options: { readonly isJson: boolean } = { isJson: false },
): NfltrError | undefined {
  if (thrown.exitCode === 0) return undefined
  if (thrown.code === 'commander.help') {
    if (!options.isJson) return undefined
    return new NfltrError('invalid_argument', 'No command was given, or only the first word of one.', {
      hint: 'Run with --help to see what is possible.',
    })
  }
  const message = thrown.message.replace(/^error: /, '')
  const [what = '', suggestion] = message.split('\n')
  // Of an argument the parser names the value first; a flag is quoted with its placeholder.
  const argument = (/ for argument '([^']+)'/.exec(what) ?? /'([^']+)'/.exec(what))?.[1]
  return new NfltrError('invalid_argument', capitalised(what), {
    hint: suggestion?.replace(/^\(|\)$/g, '') ?? 'Run with --help to see what is possible.',
    ...(argument === undefined ? {} : { details: { argument: argument.split(' ')[0] ?? argument } }),
  })
}

function capitalised(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, '.')}`
}

export { CommanderError }
