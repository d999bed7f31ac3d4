import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { freeBytes } from '../../src/platform/disk.ts'
import {
  createFileExclusively,
  diskErrorOr,
  ensurePrivateFolder,
  readPrivateFile,
  writeFileAtomically,
} from '../../src/platform/files.ts'
import { shortRunDir, socketPathIn, socketPathMaxBytes } from '../../src/platform/short-run-dir.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nf-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'no error',
    (error: unknown) => (error instanceof NfltrError ? error.code : String(error)),
  )
}

describe('files', () => {
  test('are replaced as a whole, are ours alone, and leave nothing beside them', async () => {
    const path = join(folder, 'state')

    await writeFileAtomically(path, 'one')
    await writeFileAtomically(path, 'two')

    expect(await readFile(path, 'utf8')).toBe('two')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(folder)).toEqual(['state'])
  })

  test('of many that create one file at once exactly one does', async () => {
    const path = join(folder, 'claim')

    const codes = await Promise.all(
      Array.from({ length: 20 }, (_, index) => codeOf(createFileExclusively(path, `${index}`))),
    )

    expect(codes.filter((code) => code === 'no error')).toHaveLength(1)
    expect(codes.filter((code) => code === 'already_exists')).toHaveLength(19)
    expect(await readFile(path, 'utf8')).toBe(String(codes.indexOf('no error')))
    expect(await readdir(folder)).toEqual(['claim'])
  })

  test('with a secret are read only where nobody else can', async () => {
    const path = join(folder, 'key')
    await writeFile(path, 'secret', { mode: 0o600 })
    await symlink(path, join(folder, 'link'))

    expect(String(await readPrivateFile(path))).toBe('secret')
    expect(await readPrivateFile(join(folder, 'none'))).toBeUndefined()
    expect(await codeOf(readPrivateFile(join(folder, 'link')))).toBe('insecure_permissions')
    await chmod(path, 0o640)
    expect(await codeOf(readPrivateFile(path))).toBe('insecure_permissions')
    expect(await codeOf(readPrivateFile(folder))).toBe('insecure_permissions')
  })

  test('a private folder is made closed, and an open or linked one is refused', async () => {
    const path = join(folder, 'a', 'b')
    await ensurePrivateFolder(path)
    expect((await stat(path)).mode & 0o777).toBe(0o700)

    await chmod(path, 0o755)
    expect(await codeOf(ensurePrivateFolder(path))).toBe('insecure_permissions')
    await symlink(join(folder, 'a'), join(folder, 'linked'))
    expect(await codeOf(ensurePrivateFolder(join(folder, 'linked')))).toBe('insecure_permissions')
  })

  test('free space is a number of bytes', async () => {
    expect(await freeBytes(folder)).toBeGreaterThan(1_000_000)
  })
})

describe('the folder of sockets', () => {
  test('is the run folder where its path is short enough', async () => {
    const run = join(folder, 'run')

    expect(await shortRunDir(run)).toBe(run)
    expect(await readdir(run)).toEqual([])
  })

  test('is a short one where it is not, the same for every process of the home and after it was cleaned away', async () => {
    const run = join(folder, 'x'.repeat(100), 'run')
    const short = await shortRunDir(run, [folder])
    expect((await stat(short)).mode & 0o777).toBe(0o700)
    await rm(short, { recursive: true })

    const again = await Promise.all([shortRunDir(run, [folder]), shortRunDir(run, [folder])])

    expect(again).toEqual([short, short])
    expect(Buffer.byteLength(await socketPathIn(short, 'k-0123456789ab.sock'))).toBeLessThanOrEqual(socketPathMaxBytes)
  })

  test('is one folder where two processes make it at once', async () => {
    const run = join(folder, 'x'.repeat(100), 'run')

    const [one, two] = await Promise.all([shortRunDir(run, [folder]), shortRunDir(run, [folder])])

    expect(one).toBe(two)
    expect((await readdir(folder)).filter((name) => name.startsWith('nfltr-'))).toHaveLength(1)
  })

  test('counts bytes and not letters, and is refused where no root is short enough', async () => {
    const run = join(folder, 'ö'.repeat(40), 'run')
    await mkdir(join(folder, 'y'.repeat(90)))

    expect(await shortRunDir(run, [folder])).not.toBe(run)
    expect(await codeOf(shortRunDir(join(folder, 'z'.repeat(90)), [join(folder, 'y'.repeat(90))]))).toBe(
      'path_too_long',
    )
  })
})

describe('what a disk refuses', () => {
  const refusal = (code: string): unknown => diskErrorOr(Object.assign(new Error(code), { code }), '/a/home')

  test.each([
    ['ENOSPC', 'disk_full'],
    ['EDQUOT', 'disk_full'],
    ['EROFS', 'store_failed'],
    ['EIO', 'store_failed'],
  ])('with %s is named as %s, with the path and what to do', (code, named) => {
    expect(refusal(code)).toMatchObject({
      code: named,
      message: expect.stringContaining('/a/home'),
      hint: expect.any(String),
    })
  })

  test('for any other reason stays as it came', () => {
    expect(refusal('ENOENT')).toMatchObject({ message: 'ENOENT' })
    expect(refusal('ENOENT')).not.toBeInstanceOf(NfltrError)
  })
})
