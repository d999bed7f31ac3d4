import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { until } from '../soak/until.ts'
import { freePort } from './bed.ts'
import { NotHere } from './figure.ts'
import { programOf } from './packages.ts'
import { firstLineMs } from './probes.ts'

/** A server of its own on the loopback, with keys and settings of its own, that lives as long as the figure. */
export class SshServer {
  readonly #folder: string
  readonly #server: ChildProcess
  readonly #client: readonly string[]

  private constructor(folder: string, server: ChildProcess, client: readonly string[]) {
    this.#folder = folder
    this.#server = server
    this.#client = client
  }

  /** @throws {NotHere} where there is no ssh and none can be installed, or it does not let this user in */
  static async start(parent: string): Promise<SshServer> {
    const sshd = programOf('sshd', 'openssh-server', ['/usr/sbin/sshd', '/usr/local/sbin/sshd'])
    programOf('ssh', 'openssh-client', ['/usr/bin/ssh', '/usr/local/bin/ssh'])
    const folder = mkdtempSync(join(parent, 'ssh-'))
    const file = (name: string): string => join(folder, name)
    for (const key of ['host', 'user']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file(key)])
    }
    execFileSync('cp', [file('user.pub'), file('authorized')])
    const port = await freePort()
    const settings = [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${file('host')}`,
      `AuthorizedKeysFile ${file('authorized')}`,
      `PidFile ${file('pid')}`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'PermitRootLogin prohibit-password',
    ]
    writeFileSync(file('config'), `${settings.join('\n')}\n`)
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
    const server = spawn(sshd, ['-D', '-f', file('config')], { stdio: 'ignore' })
    const options = ['UserKnownHostsFile=/dev/null', 'StrictHostKeyChecking=no', 'IdentitiesOnly=yes', 'LogLevel=ERROR']
    const client = [
      '-F',
      'none',
      '-i',
      file('user'),
      '-p',
      String(port),
      ...options.flatMap((option) => ['-o', option]),
      `${userInfo().username}@127.0.0.1`,
    ]
    const started = new SshServer(folder, server, client)
    const answers = async (): Promise<true | undefined> =>
      (await started.firstLineMs(['echo', 'ready'], '').catch(() => undefined)) === undefined ? undefined : true
    await until('the ssh server lets this user in', answers, 15_000).catch((error: unknown) => {
      started.end()
      throw new NotHere(String(error))
    })
    return started
  }

  /** Milliseconds from the start of `ssh` to the first line of what it runs there. */
  firstLineMs(command: readonly string[], input: string): Promise<number> {
    return firstLineMs('ssh', [...this.#client, ...command.map(quoted)], { input })
  }

  end(): void {
    this.#server.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
