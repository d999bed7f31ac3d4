import { join } from 'node:path'
import { ensurePrivateFolder } from '../../platform/files.ts'
import type { CredentialFiles, CredentialKind, HomePaths } from '../../ports/home.ts'
import { damaged, readRecord, writeRecord } from './record-file.ts'

const kinds: readonly CredentialKind[] = ['api_key', 'oauth_token', 'auth_token']
const kind = { name: 'a credential', shape: { kind: 'string', secret: 'string' } } as const

/** The one credential of this machine's agents, mode 0600. */
export function credentialFiles(paths: HomePaths): CredentialFiles {
  const path = join(paths.credentials, 'claude.json')
  return {
    load: async () => {
      const record = await readRecord<{ kind: string; secret: string }>(path, kind)
      if (record === undefined) return undefined
      const known = kinds.find((candidate) => candidate === record.kind)
      if (known === undefined || record.secret === '') throw damaged(path, kind)
      return { kind: known, secret: record.secret }
    },
    save: async (chosen, secret) => {
      await ensurePrivateFolder(paths.credentials)
      await writeRecord(path, { kind: chosen, secret })
    },
  }
}
