/**
 * Puts the pinned Claude Code binary into a cache folder and prints its path: `node scripts/claude-binary.ts`.
 *
 * It is for the real-CLI suite (`npm run test:claude`) alone; nothing that ships uses it. The platform package is
 * installed without its scripts, since the file `claude` in it needs none (docs: the wrapper package's `.bin/claude`
 * is broken without them). The SHA-256 is compared before the file is moved into place in one step, so two runs at once,
 * or an interrupted one, never leave half a binary behind.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access, chmod, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

/** The version every recording, the scripted agent and the driver were measured against. */
export const claudeVersion = '2.1.332'

const packageName = '@anthropic-ai/claude-code-linux-x64'
const sha256 = 'a2df1f41bb00250992926420d0063f89b127cb81abdd284dbefb80c50ff1d026'

/**
 * The path of the pinned binary, which is fetched first when the cache has none. Its hash is compared each time
 * (about a second), because a cache is a place that others can write to.
 *
 * @throws {Error} on another platform, when the package cannot be fetched, or when its bytes are not the pinned ones
 */
export async function ensureClaudeBinary(): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(`claude-binary: the pinned binary is for linux x64; this is ${process.platform} ${process.arch}`)
  }
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'nfltr-claude')
  const home = join(cache, claudeVersion)
  const binary = join(home, 'claude')
  if (!(await exists(binary))) await install(cache, home)
  const found = await hashOf(binary)
  if (found !== sha256) {
    throw new Error(`claude-binary: ${binary} has SHA-256 ${found}, expected ${sha256}; remove ${home} and run again`)
  }
  return binary
}

async function install(cache: string, home: string): Promise<void> {
  await mkdir(cache, { recursive: true })
  const scratch = await mkdtemp(join(cache, 'new-'))
  try {
    process.stderr.write(`claude-binary: fetching ${packageName}@${claudeVersion} (once)\n`)
    // A package.json of its own keeps npm from walking up to some project that happens to contain the cache.
    await writeFile(join(scratch, 'package.json'), '{"private":true}\n')
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error']
    await run('npm', ['install', ...flags, `${packageName}@${claudeVersion}`], scratch)
    const unpacked = join(scratch, 'node_modules', ...packageName.split('/'))
    const found = await hashOf(join(unpacked, 'claude'))
    if (found !== sha256) {
      throw new Error(`claude-binary: the fetched file has SHA-256 ${found}, expected ${sha256}; nothing was installed`)
    }
    await chmod(join(unpacked, 'claude'), 0o755)
    await rename(unpacked, home).catch(async (error: unknown) => {
      // Losing the race against another run is fine: its copy was checked as well.
      if (!(await exists(join(home, 'claude')))) throw error
    })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ['ignore', 2, 2] })
    child.once('error', (error) => reject(new Error(`claude-binary: could not start ${command}`, { cause: error })))
    child.once('exit', (code, signal) => {
      if (code === 0) resolve()
      else reject(new Error(`claude-binary: ${command} ${args[0] ?? ''} ended with ${signal ?? code}`))
    })
  })
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(`${await ensureClaudeBinary()}\n`)
}
