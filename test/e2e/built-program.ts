import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'

const root = join(import.meta.dirname, '../..')
const cache = join(root, 'node_modules/.cache/nfltr-e2e')

/**
 * @returns a folder with `dist/` and package.json, kept under a name that says which source it was made of
 * @throws {Error} with what the build said
 */
async function build(): Promise<string> {
  const folder = join(cache, digestOfSource())
  if (existsSync(folder)) return folder
  await mkdir(cache, { recursive: true })
  await removeOld()
  const temporary = await mkdtemp(join(cache, 'making-'))
  try {
    await run([join(root, 'scripts/build.ts'), '--out', join(temporary, 'dist')])
    await rm(join(temporary, 'dist.compiled'), { recursive: true })
    await copyFile(join(root, 'package.json'), join(temporary, 'package.json'))
    await rename(temporary, folder)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    // Another run of the tests may have been first: its build is of the same source.
    if (!existsSync(folder)) throw error
  }
  return folder
}

/** Builds of source that nobody has had for a day. */
async function removeOld(): Promise<void> {
  for (const name of await readdir(cache)) {
    // Another run may be about to give it its name, or have removed it.
    const age = await stat(join(cache, name)).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    )
    if (age > 24 * 3_600_000) await rm(join(cache, name), { recursive: true, force: true })
  }
}

function digestOfSource(): string {
  const hash = createHash('sha256')
  const files = ['src/**/*', 'scripts/build.ts', 'package.json', 'package-lock.json', 'tsconfig*.json']
  for (const entry of globSync(files, { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()) {
    hash.update(`${entry}\0`).update(readFileSync(entry)).update('\0')
  }
  return hash.digest('hex').slice(0, 16)
}

async function run(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`the build of the program under test ended with ${code}:\n${said}`)
}

/** Made while the test files that want it are read, for which no time-out runs. */
const built = await build()

/**
 * A program of a build of `src/` as it is now, by its path without extension (`cli/main`). Tests start hundreds of
 * processes; the build is what is published, and starts in a quarter of the processor time of the source.
 */
export function builtProgram(name: 'cli/main' | 'cli/demo/scripted-agent'): string {
  return join(built, `dist/${name}.js`)
}
