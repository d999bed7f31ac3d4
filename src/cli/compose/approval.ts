import { NfltrError } from '../../core/errors.ts'
import { isMachineName, type Role } from '../../core/membership.ts'
import { loadIssuerKey } from '../../identity/issuer-key.ts'
import { onlyMeshKey } from '../../mesh/owners.ts'
import type { Home, KnockRecord } from '../../ports/home.ts'
import { instant } from './instant.ts'

type Document = Readonly<Record<string, unknown>>

/** Digits of a fingerprint that a person has to type: what is signed is what was typed, so it must not be guessable. */
const digitsMin = { approve: 32, deny: 8 } as const

/** `nfltr mesh pending`: machines that ask to be let in. */
export async function pendingKnocks(home: Home): Promise<Document> {
  await loadIssuerKey(home)
  return { pending: (await home.issuer.knocks(Date.now())).map(knockDocument) }
}

/**
 * `nfltr mesh approve`: the machine gets the roles that were typed, and the name that the person saw or chose, never what
 * the knock asks for (rule 14). The process that plays the issuer signs when the machine asks the next time.
 *
 * @throws {NfltrError} `invalid_argument`, `not_found`, `name_taken`, `not_owner`
 */
export async function approveKnock(
  home: Home,
  choice: { readonly fingerprint: string; readonly roles: readonly Role[]; readonly name?: string },
): Promise<Document> {
  const signer = await loadIssuerKey(home)
  if (choice.roles.includes('owner') && !signer.isMeshKey) throw onlyMeshKey()
  const knock = await findKnock(home, choice.fingerprint, digitsMin.approve)
  const { peerId, fingerprint } = knock
  const name = choice.name ?? knock.name ?? ''
  if (!isMachineName(name)) {
    throw new NfltrError('invalid_argument', 'The machine asked for no name that a machine can have.', {
      hint: 'Choose one: --name NAME',
      details: { argument: '--name' },
    })
  }
  const owner = await home.issuer.ownerOfName(name)
  if (owner !== undefined && owner !== peerId) {
    throw new NfltrError('name_taken', `The name ${name} belongs to another machine.`, {
      hint: 'Choose another: --name NAME',
      details: { name },
    })
  }
  await home.issuer.answerKnock({ peerId, isApproved: true, roles: choice.roles, name, atMs: Date.now() })
  const isIssuerUp = (await home.issuer.holder()) !== undefined
  return { approved: { fingerprint, name, roles: choice.roles }, issuer_running: isIssuerUp }
}

/** `nfltr mesh deny`. @throws {NfltrError} `invalid_argument`, `not_found`, `not_owner` */
export async function denyKnock(home: Home, text: string): Promise<Document> {
  await loadIssuerKey(home)
  const { peerId, fingerprint } = await findKnock(home, text, digitsMin.deny)
  await home.issuer.answerKnock({ peerId, isApproved: false, roles: [], name: '', atMs: Date.now() })
  return { denied: { fingerprint } }
}

async function findKnock(home: Home, text: string, min: number): Promise<KnockRecord> {
  const digits = text.replace(/^sha256:/i, '').toLowerCase()
  if (!/^[0-9a-f]{1,64}$/.test(digits) || digits.length < min) {
    throw new NfltrError('invalid_argument', `At least ${min} hex digits of the fingerprint are needed.`, {
      hint: 'Compare it with the one that the other machine shows, and give it whole: nfltr mesh pending',
      details: { argument: 'fingerprint' },
    })
  }
  const found = (await home.issuer.knocks(Date.now())).filter((knock) =>
    knock.fingerprint.slice('SHA256:'.length).startsWith(digits),
  )
  const [only] = found
  if (only === undefined) {
    throw new NfltrError('not_found', 'No machine with that fingerprint asks to be let in.', {
      hint: 'nfltr mesh pending shows those that do. The issuer has to run: nfltr mesh serve',
      details: { argument: 'fingerprint' },
    })
  }
  if (found.length === 1) return only
  throw new NfltrError('invalid_argument', `${found.length} machines have fingerprints that begin like that.`, {
    hint: 'Give more digits.',
    details: { argument: 'fingerprint' },
  })
}

function knockDocument({ fingerprint, name, address, roles, sinceMs }: KnockRecord): Document {
  return {
    fingerprint,
    ...(name === undefined ? {} : { name }),
    ...(address === undefined ? {} : { address }),
    roles,
    since: instant(sinceMs),
  }
}
