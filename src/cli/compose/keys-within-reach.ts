import { readdir } from 'node:fs/promises'

/**
 * What agents with every tool could take from this home, because one user is one trust domain (rule 4): with the mesh key they
 * are the mesh, with a hub's key they are that hub.
 *
 * @returns a sentence for whoever starts the node; `undefined` where no such key lies here
 */
export async function keysWithinReach(keysFolder: string): Promise<string | undefined> {
  const names = await readdir(keysFolder).catch(() => [] as string[])
  const reach = [
    ...(names.some((name) => /^mesh(-\d)?\.key$/.test(name)) ? ['the key of the mesh, which lets machines in'] : []),
    ...(names.some((name) => name.startsWith('hub-')) ? ["a hub's key, which starts agents on every node"] : []),
  ]
  if (reach.length === 0) return undefined
  return `Agents with all tools can read ${reach.join(', and ')}: they run as your user. Offer another machine, or leave out --allow-all-tools.`
}
