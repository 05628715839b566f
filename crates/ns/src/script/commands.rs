//! The commands of `tb_compat`.

use super::{Fate, Object, Pipe, Reader, Said, expected, names, tb, units};
use crate::calls::Call;

impl Reader {
    /// A command: the object that it makes (or nothing), its name, and its words.
    pub(super) fn command(&mut self, call: &Call) -> Result<(), String> {
        let name = call.word(1);
        let Some(command) = tb::command(name) else { return Err(format!("there is no command `{name}`")) };
        let words: Vec<&str> = call.words.iter().skip(2).map(String::as_str).collect();
        match command.fate {
            Fate::Refused(why) if self.lenient => {
                self.note_once(&format!("`{name}` cannot be carried out, and is passed over: {why}"));
                return Ok(());
            }
            Fate::Refused(why) => {
                return Err(format!("`{name}` cannot be carried out: {why} (`--lenient` passes over it)"));
            }
            Fate::Ignored(why) => {
                self.note_once(&format!("`{name}` is ignored: {why}"));
                return Ok(());
            }
            Fate::Done(_) => {}
        }
        let usage = || expected(&format!("{name} {}", command.usage));
        match (name, words.as_slice()) {
            ("tb-set-ip", [node, address]) => self.only_address(node, address),
            ("tb-set-ip-interface", [node, other, address]) => {
                let (link, end) = self.between(node, other)?;
                self.link_address(link, end, address)
            }
            ("tb-set-ip-link", [node, link, address]) => {
                let link = self.a_link(link)?;
                let end = self.end(link, node)?;
                self.link_address(link, end, address)
            }
            ("tb-set-ip-lan", [node, lan, address]) => {
                let (lan, member) = self.member(lan, node)?;
                self.script.lans[lan].members[member].address = Some(self.address(address)?);
                Ok(())
            }
            ("tb-set-node-cmdline", [node, text]) => {
                let n = self.node(node)?;
                self.script.nodes[n].cmdline = Some(self.said(text));
                Ok(())
            }
            ("tb-set-sync-server", [node]) => {
                self.script.barriers = Some((self.node(node)?, self.place.clone()));
                Ok(())
            }
            ("tb-set-colocate-factor", [most]) => {
                let right = most.parse::<u32>().is_ok_and(|most| most > 0);
                if !right {
                    return Err(format!("`{most}` is no number of nodes: write one such as 10"));
                }
                self.script.colocate = Some(self.said(most));
                Ok(())
            }
            ("tb-set-netmask", [lan, mask]) => self.netmask(lan, mask),
            ("tb-set-hardware" | "tb-feedback-vnode", [node, kind, ..]) => {
                let n = self.node(node)?;
                self.script.nodes[n].hardware = Some(self.said(kind));
                Ok(())
            }
            ("tb-fix-node", [node, machine]) => {
                let n = self.node(node)?;
                // Known types are for the file of hardware to say.
                let said = self.said(&format!("{machine}?"));
                if self.script.nodes[n].hardware.is_none() {
                    self.script.nodes[n].hardware = Some(said);
                }
                Ok(())
            }
            ("tb-make-soft-vtype" | "tb-make-hard-vtype", [kind, types]) => self.kind(kind, types),
            ("tb-make-weighted-vtype", [kind, weight, types]) => {
                units::loss(weight).map_err(|_| format!("`{weight}` is not a weight: write a number such as 0.5"))?;
                self.kind(kind, types)
            }
            ("tb-set-node-os", [node, system, ..]) => {
                let n = self.node(node)?;
                self.script.nodes[n].system = Some(self.said(system));
                Ok(())
            }
            ("tb-set-node-memory-size", [node, mebibytes]) => {
                let n = self.node(node)?;
                let number = mebibytes.parse().map_err(|_| format!("`{mebibytes}` is not a number of MiB"))?;
                self.script.nodes[n].memory = Some(number);
                Ok(())
            }
            ("tb-set-node-startcmd" | "tb-set-node-startup", [node, command]) => {
                let n = self.node(node)?;
                let program = self.startup(n, command)?;
                self.objects.insert(call.word(0).to_owned(), program);
                Ok(())
            }
            ("tb-set-node-failure-action", [node, action]) => {
                let n = self.node(node)?;
                if !["fatal", "nonfatal", "ignore"].contains(action) {
                    return Err(usage());
                }
                self.script.nodes[n].forgiven = *action != "fatal";
                Ok(())
            }
            ("tb-set-node-tarfiles", [node, rest @ ..]) => {
                let n = self.node(node)?;
                let pairs = self.tarfiles(rest).ok_or_else(usage)?;
                self.script.nodes[n].tarfiles.extend(pairs);
                Ok(())
            }
            // Of those, too, that have still to be made.
            ("tb-set-tarfiles", rest) => {
                let pairs = self.tarfiles(rest).ok_or_else(usage)?;
                self.everywhere.extend(pairs);
                Ok(())
            }
            ("tb-set-ip-routing", [kind]) => self.routing(kind),
            ("tb-set-link-loss", [a, b, loss]) => {
                let (link, _) = self.between(a, b)?;
                self.link_loss(link, loss)
            }
            ("tb-set-link-loss", [link, loss]) => match *self.object(link)? {
                Object::Lan(_) => self.lan_loss(link, loss),
                _ => {
                    let link = self.a_link(link)?;
                    self.link_loss(link, loss)
                }
            },
            ("tb-set-lan-loss", [lan, loss]) => self.lan_loss(lan, loss),
            ("tb-set-link-simplex-params", [link, node, delay, rate, loss]) => {
                let link = self.a_link(link)?;
                let end = self.end(link, node)?;
                let pipe = &mut self.script.links[link].pipes[end];
                set(pipe, Some(delay), Some(rate), Some(loss))
            }
            ("tb-set-lan-simplex-params", [lan, node, d1, r1, l1, d2, r2, l2]) => {
                let (lan, member) = self.member(lan, node)?;
                let [up, down] = &mut self.script.lans[lan].members[member].pipes;
                set(up, Some(d1), Some(r1), Some(l1))?;
                set(down, Some(d2), Some(r2), Some(l2))
            }
            ("tb-set-node-lan-delay", [node, lan, delay]) => self.of_member(lan, node, Some(delay), None, None),
            ("tb-set-node-lan-bandwidth", [node, lan, rate]) => self.of_member(lan, node, None, Some(rate), None),
            ("tb-set-node-lan-loss", [node, lan, loss]) => self.of_member(lan, node, None, None, Some(loss)),
            ("tb-set-node-lan-params", [node, lan, delay, rate, loss]) => {
                self.of_member(lan, node, Some(delay), Some(rate), Some(loss))
            }
            ("tb-set-link-backfill", [a, b, rate]) => {
                let (link, _) = self.between(a, b)?;
                background(&mut self.script.links[link].pipes, rate)
            }
            ("tb-set-link-backfill", [link, rate]) => {
                let link = self.a_link(link)?;
                background(&mut self.script.links[link].pipes, rate)
            }
            ("tb-set-link-simplex-backfill", [link, node, rate]) => {
                let link = self.a_link(link)?;
                let end = self.end(link, node)?;
                background([&mut self.script.links[link].pipes[end]], rate)
            }
            ("tb-set-lan-backfill", [lan, rate]) => {
                let Object::Lan(l) = *self.object(lan)? else { return Err(format!("`{lan}` is no LAN")) };
                background(self.script.lans[l].members.iter_mut().flat_map(|m| &mut m.pipes), rate)
            }
            ("tb-set-node-lan-backfill", [node, lan, rate]) => {
                let (lan, member) = self.member(lan, node)?;
                background(&mut self.script.lans[lan].members[member].pipes, rate)
            }
            ("tb-set-lan-simplex-backfill", [lan, node, to, from]) => {
                let (lan, member) = self.member(lan, node)?;
                let [up, down] = &mut self.script.lans[lan].members[member].pipes;
                background([up], to)?;
                background([down], from)
            }
            ("tb-set-noshaping", [link, onoff]) => self.unshaped(link, onoff),
            _ => Err(usage()),
        }
    }

    fn a_link(&self, name: &str) -> Result<usize, String> {
        match self.object(name)? {
            Object::Link(l) | Object::Simplex(l, _) => Ok(*l),
            _ => Err(format!("`{name}` is no link, where a link is meant: links are made with `$ns duplex-link`")),
        }
    }

    /// Which end of a link a node is.
    fn end(&self, link: usize, node: &str) -> Result<usize, String> {
        let n = self.node(node)?;
        let end = self.script.links[link].ends.iter().position(|e| *e == n);
        end.ok_or_else(|| format!("`{node}` is not at an end of this link"))
    }

    fn link_address(&mut self, link: usize, end: usize, address: &str) -> Result<(), String> {
        self.script.links[link].addresses[end] = Some(self.address(address)?);
        Ok(())
    }

    /// An address that was chosen; what can be one is for the experiment's file to decide.
    fn address(&self, text: &str) -> Result<Said, String> {
        let wrong = || format!("`{text}` is not an IPv4 address: write one such as 10.1.2.3");
        text.parse::<std::net::Ipv4Addr>().map_err(|_| wrong())?;
        Ok(self.said(text))
    }

    /// The address of a node's only interface.
    fn only_address(&mut self, node: &str, address: &str) -> Result<(), String> {
        let n = self.node(node)?;
        let said = self.address(address)?;
        let links = &mut self.script.links;
        let of_links = links.iter_mut().flat_map(|l| l.ends.into_iter().zip(&mut l.addresses));
        let lans = self.script.lans.iter_mut().flat_map(|l| &mut l.members).map(|m| (m.node, &mut m.address));
        let mut own: Vec<_> = of_links.chain(lans).filter(|(node, _)| *node == n).map(|(_, a)| a).collect();
        match own.as_mut_slice() {
            [only] => {
                **only = Some(said);
                Ok(())
            }
            [] => Err(format!("`{node}` has no link yet: set its address after the link is made")),
            many => Err(format!(
                "`{node}` has {} links: say which one is meant, with tb-set-ip-link, -lan or -interface",
                many.len()
            )),
        }
    }

    fn netmask(&mut self, lan: &str, mask: &str) -> Result<(), String> {
        let bits = mask.parse::<std::net::Ipv4Addr>().ok().map(|m| m.to_bits());
        let right =
            bits.filter(|m| m.leading_ones() + m.trailing_zeros() == 32 && (8..=30).contains(&m.leading_ones()));
        let Some(right) = right else {
            return Err(format!("`{mask}` is not a netmask: write one such as 255.255.255.0"));
        };
        match *self.object(lan)? {
            Object::Lan(l) => self.script.lans[l].bits = Some(self.said(&right.leading_ones().to_string())),
            Object::Link(_) => self.note_once("netmasks of links between two nodes are ignored"),
            _ => return Err(format!("`{lan}` is no link and no LAN")),
        }
        Ok(())
    }

    fn kind(&mut self, kind: &str, types: &str) -> Result<(), String> {
        let types: Vec<String> = names(types).into_iter().map(str::to_owned).collect();
        if types.is_empty() {
            return Err(format!("`{kind}` stands for no type of hardware: name at least one"));
        }
        self.script.types.insert(kind.to_owned(), types);
        Ok(())
    }

    /// Pairs of an absolute directory and a file; none if they are not.
    fn tarfiles(&self, words: &[&str]) -> Option<Vec<(String, Said)>> {
        let words: Vec<&str> = if let [list] = words { names(list) } else { words.to_vec() };
        let right = !words.is_empty() && words.len().is_multiple_of(2);
        let pair = |pair: &[&str]| pair[0].starts_with('/').then(|| (pair[0].to_owned(), self.said(pair[1])));
        if right { words.chunks(2).map(pair).collect() } else { None }
    }

    fn link_loss(&mut self, link: usize, loss: &str) -> Result<(), String> {
        let loss = units::loss(loss)?;
        self.script.links[link].pipes.iter_mut().for_each(|p| p.loss = loss);
        Ok(())
    }

    fn lan_loss(&mut self, lan: &str, loss: &str) -> Result<(), String> {
        let Object::Lan(l) = *self.object(lan)? else { return Err(format!("`{lan}` is no LAN")) };
        // A packet from one member to another passes two pipes.
        let each = 1.0 - (1.0 - units::loss(loss)?).sqrt();
        self.script.lans[l].members.iter_mut().flat_map(|m| &mut m.pipes).for_each(|p| p.loss = each);
        Ok(())
    }

    fn of_member(
        &mut self,
        lan: &str,
        node: &str,
        delay: Option<&str>,
        rate: Option<&str>,
        loss: Option<&str>,
    ) -> Result<(), String> {
        let (lan, member) = self.member(lan, node)?;
        self.script.lans[lan].members[member].pipes.iter_mut().try_for_each(|p| set(p, delay, rate, loss))
    }

    fn unshaped(&mut self, link: &str, onoff: &str) -> Result<(), String> {
        if onoff != "1" {
            return Ok(());
        }
        match *self.object(link)? {
            Object::Link(l) => self.script.links[l].pipes.iter_mut().for_each(|p| p.rate = None),
            Object::Lan(l) => {
                self.script.lans[l].members.iter_mut().flat_map(|m| &mut m.pipes).for_each(|p| p.rate = None);
            }
            _ => return Err(format!("`{link}` is no link and no LAN")),
        }
        Ok(())
    }
}

/// Has traffic that is not the experiment's own take this of pipes.
fn background<'a>(pipes: impl IntoIterator<Item = &'a mut Pipe>, rate: &str) -> Result<(), String> {
    let bits = if rate == "0" { Some(0.0) } else { units::bandwidth(rate)? };
    let bits = bits.ok_or_else(|| format!("`{rate}` is no bandwidth that traffic has: write one such as `1Mb`"))?;
    pipes.into_iter().for_each(|p| p.background = bits);
    Ok(())
}

fn set(pipe: &mut Pipe, delay: Option<&str>, rate: Option<&str>, loss: Option<&str>) -> Result<(), String> {
    if let Some(delay) = delay {
        pipe.delay = units::delay(delay)?;
    }
    if let Some(rate) = rate {
        pipe.rate = units::bandwidth(rate)?;
    }
    if let Some(loss) = loss {
        pipe.loss = units::loss(loss)?;
    }
    Ok(())
}
