import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { errorFromDocument } from '../../control/error-document.ts'
import { NfltrError } from '../../core/errors.ts'
import { mainModule } from '../compose/hub-starter.ts'

/** A machine of the demo: a home of its own on this computer, driven through the same commands that a person types. */
export interface DemoMachine {
  readonly home: string
  readonly env: Readonly<Record<string, string>>
}

/** A command that streams its events. */
export interface DemoProcess {
  readonly pid: number
  /** The next event of this name. @throws {NfltrError} what the command said when it ended instead */
  event(name: string): Promise<Readonly<Record<string, unknown>>>
  kill(signal: NodeJS.Signals): void
  readonly ended: Promise<void>
}

/** Runs one command to its end and gives its document. @throws {NfltrError} what the command refused */
export async function run(machine: DemoMachine, args: readonly string[]): Promise<Readonly<Record<string, unknown>>> {
  const child = launch(machine, args)
  let stdout = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const document = JSON.parse(stdout === '' ? '{}' : stdout) as Record<string, unknown>
  if (code !== 0) throw errorFromDocument(document)
  return document
}

export function start(machine: DemoMachine, args: readonly string[], input?: string): DemoProcess {
  const child = launch(machine, args)
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input ?? '')
  const unread: Readonly<Record<string, unknown>>[] = []
  let wake: (() => void) | undefined
  let hasEnded = false
  const changed = (): void => {
    wake?.()
    wake = undefined
  }
  if (child.stdout === null) throw new Error('the command has no standard output')
  createInterface({ input: child.stdout }).on('line', (line) => {
    unread.push(JSON.parse(line) as Record<string, unknown>)
    changed()
  })
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      hasEnded = true
      resolve()
      changed()
    })
  })
  return {
    pid: child.pid ?? 0,
    ended,
    kill: (signal) => void child.kill(signal),
    event: async (name) => {
      for (;;) {
        const index = unread.findIndex((line) => line['event'] === name)
        if (index >= 0) return unread.splice(index, 1)[0] ?? {}
        const refusal = unread.find((line) => 'error' in line)
        if (refusal !== undefined) throw errorFromDocument(refusal)
        if (hasEnded)
          throw new NfltrError('not_running', `\`nfltr ${args.slice(0, 2).join(' ')}\` ended before it was ${name}.`)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
  }
}

function launch(machine: DemoMachine, args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, mainModule(), ...args, '--json', '--home', machine.home], {
    env: machine.env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}
