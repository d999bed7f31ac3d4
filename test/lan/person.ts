import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { builtProgram } from '../e2e/built-program.ts'
import { connectTo, type McpSession } from '../e2e/mcp-client.ts'
import { waitingFor } from '../support/open-waits.ts'
import { finished, type Namespace } from './namespaces.ts'

const [main, agent] = [builtProgram('cli/main'), builtProgram('cli/demo/scripted-agent')]

/** Somebody at a shell of one machine: a home folder, and `nfltr` and `claude` on the PATH. */
export class Person {
  readonly home: string
  readonly #namespace: Namespace
  readonly #env: Readonly<Record<string, string>>
  readonly #serving = new Map<string, ChildProcess>()

  /** @param scenario - the file that says what agents do, which the stand-in for Claude Code plays */
  constructor(options: { readonly namespace: Namespace; readonly home: string; readonly scenario: string }) {
    this.home = options.home
    this.#namespace = options.namespace
    const bin = join(this.home, 'bin')
    mkdirSync(bin, { recursive: true })
    program(bin, 'nfltr', `'${main}'`)
    program(bin, 'claude', `'${agent}' --scenario '${options.scenario}'`)
    this.#env = { HOME: this.home, PATH: `${bin}:/usr/local/bin:/usr/bin:/bin`, LANG: 'C.UTF-8', NO_COLOR: '1' }
  }

  /** Runs a line to its end. @returns its standard output @throws {Error} with all it said, where it failed */
  async run(line: string): Promise<string> {
    const { code, stdout, stderr } = await finished(this.#start(line))
    if (code !== 0) throw new Error(`${line}\nended with ${code}:\n${stdout}${stderr}`)
    return stdout
  }

  async json(line: string): Promise<Record<string, unknown>> {
    return JSON.parse(await this.run(`${line} --json`)) as Record<string, unknown>
  }

  /** Runs a line that has to be refused. @returns the code of the refusal @throws {Error} where it was not refused */
  async refused(line: string): Promise<unknown> {
    const { code, stdout, stderr } = await finished(this.#start(`${line} --json`))
    if (code === 0) throw new Error(`${line}\nwas not refused:\n${stdout}${stderr}`)
    return (JSON.parse(stdout) as { readonly error: { readonly code: unknown } }).error.code
  }

  /** Opens a session of Claude Code with the tools of this machine's hub. */
  session(): Promise<McpSession> {
    const [command, ...args] = this.#namespace.inside(['nfltr', 'mcp', '--toolset', 'hub'])
    return connectTo({ command, args, env: this.#env, cwd: this.home })
  }

  /** Starts a line that goes on, and waits until it says this. @returns what it said until then */
  async serve(line: string, until: RegExp): Promise<string> {
    const child = this.#start(line)
    this.#serving.set(line, child)
    let said = ''
    const coming = new Promise<string>((resolve, reject) => {
      const heard = (text: string): void => {
        said += text
        if (until.test(said)) resolve(said)
      }
      child.stdout?.setEncoding('utf8').on('data', heard)
      child.stderr?.setEncoding('utf8').on('data', heard)
      child.once('exit', (code) => reject(new Error(`${line}\nended with ${code}:\n${said}`)))
    })
    return await waitingFor(() => `${until} from ${line}, which said:\n${said}`, coming)
  }

  /** Starts a line that goes on and says nothing here. */
  begin(line: string): ChildProcess {
    const child = this.#start(line)
    this.#serving.set(line, child)
    return child
  }

  /** Waits until what was started has ended by itself. */
  async ended(line: string): Promise<void> {
    const child = this.#serving.get(line)
    if (child !== undefined && child.exitCode === null) await once(child, 'exit')
  }

  /** Ends what `serve` started, as Ctrl-C does. */
  async interrupt(line: string): Promise<void> {
    const child = this.#serving.get(line)
    if (child?.pid === undefined || child.exitCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    process.kill(-child.pid, 'SIGINT')
    await ended
  }

  #start(line: string): ChildProcess {
    return this.#namespace.spawn(['bash', '-c', line], { env: this.#env, cwd: this.home })
  }
}

function program(folder: string, name: string, command: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\nexec '${process.execPath}' ${command} "$@"\n`, { mode: 0o755 })
}
